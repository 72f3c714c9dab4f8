// biome-ignore-all lint/suspicious/noTemplateCurlyInString: variables of the configuration file
import fc from 'fast-check';
import t from 'tap';
import { parse as parseYaml } from 'yaml';
import { ConfigurationError } from '../../src/config/mistakes.ts';
import { anyCharacter } from '../helpers/any-character.ts';
import { EXAMPLE, EXAMPLE_ENV, parse } from './helpers.ts';

/** With a setting of each form, beside those of the example. */
const example = {
  ...parseYaml(EXAMPLE),
  ...{ delivery: { removedAfter: '1d' }, messages: { keep: '7 days', maxSize: '1GB' }, eventLog: { keep: '400d' } },
  alerts: {
    notify: ['https://a.example.com/', { url: 'https://b.example.com/', format: 'json' }],
    rules: { deadLetters: { after: '1m', moreThan: 3 }, runHeld: false },
  },
  traits: [
    {
      ...{ name: 'Orders', source: 'shop', live: true },
      value: { sum: 'O', of: 'properties.total', within: '9d', where: { 'properties.a': { gt: 1, exists: true } } },
    },
  ],
};
example.destinations[0].rateLimit = '100/s';
example.destinations[0].types = ['identify'];
example.destinations[0].webhooks[0].batch = { size: 500, wait: '200ms' };

/** Paths of every value in the example. */
function paths(value: unknown, path: readonly string[] = []): readonly (readonly string[])[] {
  if (typeof value !== 'object' || value === null) return [path];
  return [path, ...Object.entries(value).flatMap(([key, item]) => paths(item, [...path, key]))];
}

function replaced(value: unknown, [key, ...rest]: readonly string[], other: unknown): unknown {
  if (key === undefined) return other;
  const copy = structuredClone(value) as Record<string, unknown>;
  copy[key] = replaced(copy[key], rest, other);
  return copy;
}

/** The result of loading: a configuration, or mistakes that each say something. */
function outcome(file: unknown): 'taken' | 'refused' {
  try {
    parse(JSON.stringify(file), EXAMPLE_ENV);
    return 'taken';
  } catch (error) {
    if (!(error instanceof ConfigurationError) || error.mistakes.length === 0) throw error;
    for (const { message } of error.mistakes) if (/invalid|undefined|\[object/i.test(message)) throw error;
    return 'refused';
  }
}

t.test('accepts any value at any place of the file, or refuses it with a reason', async (t) => {
  const anything = fc.oneof(
    fc.jsonValue(),
    fc.string({ unit: anyCharacter }),
    fc.integer(),
    fc.constantFrom('', '${X}', '0'),
  );
  const seen = new Set<string>();
  fc.assert(
    fc.property(fc.constantFrom(...paths(example)), anything, (path, value) => {
      seen.add(outcome(replaced(example, path, value)));
    }),
    { numRuns: 500 },
  );
  t.strictSame([...seen].toSorted(), ['refused', 'taken']);
});

t.test('refuses with a reason objects that cannot be turned into text, at every place', async (t) => {
  const object = { toString: false, valueOf: false };
  for (const path of paths(example)) {
    for (const value of [object, [object], { any: object }, { any: [object] }, { 'x-env': object }]) {
      t.doesNotThrow(() => outcome(replaced(example, path, value)), path.join('.'));
    }
  }
});

t.test('reads any text as a configuration or reports a mistake', async (t) => {
  fc.assert(
    fc.property(fc.string({ unit: anyCharacter, maxLength: 200 }), (text) => {
      try {
        parse(text);
      } catch (error) {
        if (!(error instanceof ConfigurationError)) throw error;
      }
    }),
  );
  t.pass();
});
