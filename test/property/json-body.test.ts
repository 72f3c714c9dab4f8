import { deepStrictEqual, strictEqual } from 'node:assert';
import * as fc from 'fast-check';
import t from 'tap';
import { JsonBody } from '../../src/collect/json-body.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import { isRejection, readMessage } from '../../src/message.ts';
import { RawObject } from '../../src/raw-object.ts';

const numRuns = Number(process.env['PROPERTY_RUNS'] ?? 1_500);

/** JSON of every kind that a client may write, and some that none may: not only as JSON.stringify writes it. */
const space = fc.oneof(
  { weight: 8, arbitrary: fc.constant('') },
  { weight: 1, arbitrary: fc.constantFrom(' ', '\n', '\t ', '\r\n') },
);
const character = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom('a', 'b', '_', '0', '9', ' ', '{', ']', ':', ',') },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      ...['\\"', '\\\\', '\\n', '\\/', '\\b', '\\u0000', '\\u001f', '\\u001F', '\\u0041', '\\ud83d\\ude00', '\\ud83d'],
      ...['\\udfff', '\\uDFFF', '\u007f', '\u2028', '\u00e9', '\u{1f600}', '\ufeff', '\\u2028'],
    ),
  },
  { weight: 1, arbitrary: fc.constantFrom('\\', '\\x', '\\u12', '\n', '\u0000') },
);
const text = fc.array(character, { maxLength: 6 }).map((characters) => `"${characters.join('')}"`);
const number = fc.oneof(
  fc.constantFrom(
    '0',
    '-0',
    '-0.0',
    '0.0',
    '1e400',
    '-1e400',
    '1E5',
    '1e21',
    '1e-7',
    '0.000001',
    '0.0000001',
    '0.00001234567',
  ),
  fc.constantFrom('01', '-', '1.', '.5', '+1', '1e', '--1', '1.2.3', '0x1', 'NaN', '1e5.5', '-01', '00'),
  fc.constantFrom(
    '123456789012345',
    '1234567890123456',
    '12345678901234567890',
    '9007199254740993',
    '0.1234567890123456789',
  ),
  fc.constantFrom('100', '1.50', '-7.25', '39.95', '1000000000000000000000', '123456789012345.6', '4.35', '-0.5'),
  fc.double().map(String),
  fc.integer().map(String),
);
const word = fc.constantFrom('true', 'false', 'null', 'tru', 'nulll', 'True', '');
const key = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom('"a"', '"b"', '"ab"', '"ba"', '"c c"') },
  {
    weight: 2,
    arbitrary: fc.constantFrom('"1"', '"0"', '"10"', '"01"', '"-1"', '"4294967295"', '"__proto__"', '""', '"toJSON"'),
  },
  { weight: 1, arbitrary: fc.constantFrom('"__prot\\u006f__"', '"constructor"', '"\\u0061"', '"\u00e9"') },
  { weight: 2, arbitrary: text },
);
const join = (open: string, parts: readonly string[], close: string) => open + parts.join(',') + close;
const { value, object } = fc.letrec<{ value: string; object: string; array: string }>((tie) => ({
  value: fc.oneof({ maxDepth: 4, withCrossShrink: true }, text, number, word, tie('object'), tie('array')),
  object: fc.array(fc.tuple(key, space, tie('value'), space), { maxLength: 5 }).map((fields) =>
    join(
      '{',
      fields.map(([name, before, field, after]) => `${name}${before}:${field}${after}`),
      '}',
    ),
  ),
  array: fc.array(fc.tuple(space, tie('value')), { maxLength: 5 }).map((items) =>
    join(
      '[',
      items.map((item) => item.join('')),
      ']',
    ),
  ),
}));
/** A key in one of the ways in which JSON may write it. */
const spelled = (name: string) =>
  fc
    .tuple(
      ...[...name].map((letter) =>
        fc.constantFrom(...[letter, letter, letter], lowerEscape(letter), upperEscape(letter)),
      ),
    )
    .map((letters) => `"${letters.join('')}"`);
const lowerEscape = (letter: string) => `\\u00${letter.charCodeAt(0).toString(16)}`;
const upperEscape = (letter: string) => `\\u00${letter.charCodeAt(0).toString(16).toUpperCase()}`;
const batchKey = fc.oneof(
  { weight: 4, arbitrary: fc.constant('"batch"') },
  { weight: 4, arbitrary: spelled('batch') },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      '"batc\\u006"',
      '"b\\u00g1tch"',
      '"b\\u 61tch"',
      '"batch\\u0000"',
      '"\\batch"',
      '"B\\u0061tch"',
    ),
  },
);
const batches = fc
  .tuple(batchKey, space, fc.array(fc.oneof({ weight: 4, arbitrary: object }, value), { maxLength: 4 }), object, space)
  .map(([key, before, items, more, after]) => `{${key}${before}:${join('[', items, ']')}${after},"more":${more}}`);
const document = fc
  .tuple(
    fc.constantFrom('', '', '\ufeff'),
    space,
    fc.oneof(object, object, batches, value),
    fc.constantFrom('', '', ' ', 'x', '}', ','),
  )
  .map((parts) => parts.join(''));

/** The outline's result, built in full; undefined when it says that it is no JSON. */
function outlined(json: string): { readonly value: unknown } | undefined {
  try {
    const body = new JsonBody(Buffer.from(json));
    const whole = full(body.whole.value());
    return {
      value: body.items ? { ...(whole as object), batch: body.items.map((item) => full(item.value())) } : whole,
    };
  } catch (error) {
    if (error instanceof RollcallError && error.code === 'invalid_json') return undefined;
    throw error;
  }
}

function full(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, field]) => [name, field instanceof RawObject ? field.parse() : field]),
  );
}

/** The result of JSON.parse, but for fields named `__proto__`. */
function parsed(json: string): { readonly value: unknown } | undefined {
  try {
    const value: unknown = JSON.parse(json.replace(/^\ufeff/, ''));
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return { value };
    const { batch, ...rest } = withoutProto(value);
    const items = Array.isArray(batch) ? { batch: batch.map(withoutProto) } : batch === undefined ? {} : { batch };
    return { value: { ...rest, ...items } };
  } catch {
    return undefined;
  }
}

function withoutProto(value: unknown): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value as never;
  return Object.fromEntries(Object.entries(value).filter(([name]) => name !== '__proto__'));
}

t.test('the outline of a body says what JSON.parse says', async (t) => {
  let [valid, invalid] = [0, 0];
  fc.assert(
    fc.property(document, (json) => {
      const expected = parsed(json);
      if (expected) valid += 1;
      else invalid += 1;
      deepStrictEqual(outlined(json), expected);
    }),
    {
      numRuns,
      examples: [
        ['{"batch":[{"a":{"b":1}},null,[1],"x"]}'],
        ['{"b\\u0061tch":[{"a":1}]}'],
        ['{"batch":[1],"batc\\u0068":[2]}'],
        ['{"batch":[1],"\\u0062atch":2}'],
        ['{"a":{"1":1,"0":2}}'],
        ['{"a":{"b":1,"b":2}}'],
      ],
    },
  );
  t.ok(valid > numRuns / 10 && invalid > numRuns / 10, `${valid} valid, ${invalid} not`);
});

t.test('the write key is found however its name is spelled', async (t) => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(spelled('writeKey'), fc.oneof(text, number)), { minLength: 1, maxLength: 2 }),
      (keys) => {
        const json = `{${keys.map(([key, value]) => `${key}:${value}`).join(',')}}`;
        const writeKey = attempt(() => JSON.parse(json) as { writeKey: unknown })?.writeKey;
        const body = attempt(() => new JsonBody(Buffer.from(json)));
        if (writeKey !== undefined) strictEqual(body?.writeKey, typeof writeKey === 'string' ? writeKey : null);
      },
    ),
    { numRuns, examples: [[[['"write\\u004bey"', '"WK"']]]] },
  );
  t.pass();
});

t.test('what is cut from the bytes is what JSON.stringify would write', async (t) => {
  let cut = 0;
  fc.assert(
    fc.property(object, (json) => {
      const body = attempt(() => new JsonBody(Buffer.from(`{"a":${json}}`)).whole.value() as Record<string, unknown>);
      if (!(body?.['a'] instanceof RawObject)) return;
      cut += 1;
      const { text } = body['a'];
      strictEqual(JSON.stringify(JSON.parse(text)), text);
      strictEqual(text, json, 'and what was sent');
      strictEqual(text.includes('"__proto__":'), false);
    }),
    { numRuns },
  );
  t.ok(cut > numRuns / 40, `${cut} were cut`);
});

t.test('what JSON.stringify writes is cut from the bytes', async (t) => {
  const ordinary = fc.dictionary(fc.stringMatching(/^[a-z]{1,8}$/), fc.jsonValue({ maxDepth: 2 }), {
    minKeys: 1,
    noNullPrototype: true,
  });
  fc.assert(
    fc.property(ordinary, (value) => {
      const json = JSON.stringify(value);
      const { a } = new JsonBody(Buffer.from(`{"a":${json}}`)).whole.value() as { a: unknown };
      // Keys that are numbers, traps or have escapes are left to JSON.parse.
      const isExpected = !/"(\d[^"]*|__proto__)":|\\/.test(json);
      if (isExpected) strictEqual(a instanceof RawObject && a.text, json);
      else deepStrictEqual(a instanceof RawObject ? a.parse() : a, JSON.parse(json));
    }),
    { numRuns },
  );
  t.pass();
});

t.test('a message that came as bytes has the body of one that was parsed, and JSON gives it back', async (t) => {
  let taken = 0;
  const envelope = { receivedAt: 1_800_000_000_000, newId: () => 'made' };
  const fields = fc.tuple(
    object,
    object,
    object,
    fc.constantFrom('track', 'identify', 'page', 'group', 'alias', 'screen'),
  );
  fc.assert(
    fc.property(fields, fc.boolean(), ([a, b, c, type], isShared) => {
      const json = `{"type":"${type}","userId":"u","event":"e","groupId":"g","previousId":"p","properties":${a},"traits":${b},"context":${c},"1":${a},"x":${b}}`;
      const wholly = attempt(() => JSON.parse(json) as unknown);
      if (wholly === undefined) return;
      const all = { ...envelope, ...(isShared && { context: { shared: 1, a: 2 } }) };
      const fromBytes = readMessage(new JsonBody(Buffer.from(json)).whole.value(), all);
      const expected = readMessage(wholly, all);
      if (isRejection(fromBytes) || isRejection(expected)) return deepStrictEqual(fromBytes, expected);
      taken += 1;
      deepStrictEqual(JSON.parse(fromBytes.body), JSON.parse(expected.body));
      strictEqual(JSON.stringify(JSON.parse(fromBytes.body)), fromBytes.body);
    }),
    { numRuns },
  );
  t.ok(taken > numRuns / 40, `${taken} were taken`);
});

function attempt<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}
