import { readFileSync } from 'node:fs';
import t from 'tap';
import { writtenSentence } from '../../src/config/sentences.ts';
import { OPERATOR_NAMES } from '../../src/definition/operators.ts';
import { parse } from '../config/helpers.ts';

const BASE = 'sources: [{ id: personas, writeKey: k }]\neventLog: {}\n';

/** A definition in YAML, and the same in words. */
const SAID: readonly (readonly [definition: string, sentence: string])[] = [
  ['{ performed: Order }', 'did Order'],
  [
    '{ performed: [Order, Refund], atLeast: 3, within: 90 days }',
    'did Order or Refund at least 3 times in the last 90 days',
  ],
  ['{ viewed: { any: true }, exactly: 1 }', 'viewed any page exactly once'],
  ['{ screen: Home, atMost: 2 }', 'saw Home at most 2 times'],
  ['{ screen: Home, atLeast: 1, atMost: 2 }', 'saw Home 1 to 2 times'],
  ['{ performed: Order, exactly: 0, within: 36 hours }', 'never did Order in the last 36 hours'],
  ['{ performed: Order, between: [30 days, 7 days] }', 'did Order between 30 days and 7 days ago'],
  [
    '{ performed: Order, firstTime: true, since: 2026-01-31 }',
    'did Order for the first time since 2026-01-31T00:00:00.000Z',
  ],
  [
    '{ performed: Order, where: { properties.total: { gt: 10 }, properties."price.net": { lt: { property: properties.total } } } }',
    'did Order where properties.total is more than 10 and properties."price.net" is less than properties.total',
  ],
  [
    '{ all: [{ trait: plan, in: [pro, team] }, { any: [{ trait: a.b, exists: false }, { inAudience: big }] }] }',
    'trait plan is one of "pro", "team", and (trait a.b is missing, or is in big)',
  ],
  ['{ not: { trait: ends_at, withinNext: 3 days } }', 'not: trait ends_at is in the next 3 days'],
  ['{ trait: city, isNot: { trait: address.city } }', 'trait city is not trait address.city'],
  ['{ computed: score, column: points, gte: 100 }', 'computed score.points is at least 100'],
  ['{ split: { name: spring, from: 0, to: 12.5 } }', 'is in the share from 0 % to 12.5 % of spring'],
  [
    '{ sequence: [{ performed: Cart }, { viewed: Pay, after: { atLeast: 5 minutes } }, { not: { performed: Order }, after: { atMost: 1 hour } }] }',
    'did Cart, then viewed Pay at least 5 minutes later, then never did Order within 1 hour',
  ],
  ['{ trait: plan, is: "${PLAN}" }', 'trait plan is "${PLAN}"'],
];

t.test('says a definition in words, with names of variables in place of values', (t) => {
  const others = 'big, source: personas, sql: select 1 as user_id';
  for (const [definition, sentence] of SAID) {
    const config = parse(
      `${BASE}
audiences: [{ name: it, source: personas, when: ${definition} }, { name: ${others} }]
traits: [{ name: score, source: personas, sql: "select 1 as user_id, 2 as points, 3 as score" }]`,
      { PLAN: 'secret' },
    );
    const written = config.written.get('it');
    t.equal(written && writtenSentence(written), sentence);
  }
  t.end();
});

t.test('has words for every example of the docs, which use all operators', (t) => {
  const docs = readFileSync(new URL('../../docs/definitions.md', import.meta.url), 'utf8');
  const examples = [...docs.matchAll(/^```yaml\n([\s\S]*?)^```/gm)].map(([, text = '']) => text);
  const used = OPERATOR_NAMES.filter((name) => examples.some((text) => new RegExp(`\\b${name}: `).test(text)));
  t.same(used, OPERATOR_NAMES);
  for (const text of examples) {
    for (const [key, written] of parse(`${BASE}${text}`).written) {
      const sentence = writtenSentence(written);
      t.equal(sentence === null, written.language === 'sql', key);
      t.notMatch(sentence ?? '', /undefined|null|\[object|NaN/, key);
    }
  }
  t.match(
    parse(`${BASE}
traits: [{ name: it, source: personas, value: { uniqueCount: Order, of: properties.sku, within: 1 day } }]`).written.get(
      'it',
    ),
    { language: 'yaml' },
  );
  t.end();
});
