import { deepStrictEqual, strictEqual } from 'node:assert';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as fc from 'fast-check';
import t from 'tap';
import { JsonBody } from '../../src/collect/json-body.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import { type Envelope, isRejection, type Message, readMessage } from '../../src/message.ts';
import type { MessageType } from '../../src/message-types.ts';

const numRuns = Number(process.env['PROPERTY_RUNS'] ?? 4_000);
const RECEIVED = 1_795_200_000_123;

const field = (name: string, value: fc.Arbitrary<string>) =>
  fc.tuple(fc.constant(`"${name}"`), fc.oneof({ weight: 12, arbitrary: value }, { weight: 1, arbitrary: odd }));
const odd = fc.constantFrom(
  ...['null', 'true', 'false', '[]', '{}', '""', '" "', '" x"', '42', '-0', '1e400', '01', 'nul', '[1,]', '"\\u0061"'],
  ...[
    '"\\n"',
    '"é"',
    '"\u{1f600}"',
    '"2015-2-02T00:00:00Z"',
    '{ "a":1}',
    '{"a":1,"a":2}',
    '{"__proto__":1}',
    '{"1":2}',
  ],
  ...[
    '"__proto__"',
    `"${'i'.repeat(101)}"`,
    `"${'i'.repeat(1_000)}"`,
    `"${'i'.repeat(1_001)}"`,
    `{"a":"${'x'.repeat(33_000)}"}`,
    '[[["a"]]]',
    '"9999-12-31T23:59:59.999Z"',
  ],
);
const text = fc.constantFrom('"u"', '"user-1"', '"Order Completed"', '"a b"', '"null"', '"\u007f"');
const object = fc.constantFrom('{"a":1}', '{"path":"/","url":"https://a"}', '{"title":4}', '{"b":{"c":[1,"x"]}}', '{}');
/** With our own word in each of the places that it may have. */
const context = fc.constantFrom(
  ...['{"personas":{"computation_class":"audience"}}', '{"a":1,"personas":null}', '{"\\u0070ersonas":1}'],
  ...['{"Personas":1}', '{"b":{"personas":1}}', '{"a":"personas"}', '{ "personas" : 1 }', '{"a\\"personas":1}'],
);
const time = fc.constantFrom(
  ...[
    '"2026-11-21T02:29:37.012Z"',
    '"2026-11-21T02:29:37+0000"',
    '"2024-02-29T23:59:59.999Z"',
    '"0000-01-01T00:00:00Z"',
  ],
  ...['"2026-11-21T24:00:00.000Z"', '"2026-02-30T00:00:00.000Z"', '"2026-11-21T02:29:37.012345Z"'],
);
const types = ['identify', 'track', 'page', 'screen', 'group', 'alias'] as const;
const known = [
  field('type', fc.constantFrom(...types.map((type) => `"${type}"`), '"delete"')),
  ...['userId', 'messageId', 'event', 'name', 'anonymousId', 'groupId', 'previousId'].map((name) => field(name, text)),
  ...['properties', 'traits', 'integrations'].map((name) => field(name, object)),
  field('context', fc.oneof({ weight: 9, arbitrary: object }, { weight: 1, arbitrary: context })),
  ...['timestamp', 'originalTimestamp', 'sentAt'].map((name) => field(name, time)),
];
const unknown = fc.tuple(
  fc.constantFrom(
    ...[
      '"x"',
      '"y"',
      '"channel"',
      '"version"',
      '"writeKey"',
      '"_metadata"',
      '"receivedAt"',
      '"1"',
      '"__proto__"',
      '""',
    ],
    ...['"\\u0078"', '"User ID"', '"é"', '"toJSON"', '"constructor"', '"batch"'],
  ),
  fc.oneof(text, object, odd),
);
const space = fc.oneof({ weight: 20, arbitrary: fc.constant('') }, fc.constantFrom(' ', '\n '));
/** A message as its bytes may come: nearly always whole, in any order, with more fields than are known, now and then twice. */
const message = fc
  .tuple(
    fc.tuple(...known.map((each) => fc.option(each, { freq: 3, nil: null }))),
    fc.array(unknown, { maxLength: 2 }),
    fc.oneof(
      { weight: 8, arbitrary: fc.constant(null) },
      fc.constantFrom('"userId":"twice"', '"x":null', '"type":"track"'),
    ),
    fc.infiniteStream(space),
    fc.nat(),
  )
  .map(([present, others, again, spaces, turn]) => {
    const blank = () => spaces.next().value as string;
    const fields = [...present.filter((each) => each !== null), ...others].map(
      ([name, value]) => `${blank()}${name}${blank()}:${blank()}${value}${blank()}`,
    );
    const start = turn % (fields.length + 1);
    const turned = [...fields.slice(start), ...fields.slice(0, start), ...(again === null ? [] : [again])];
    return `{${turned.join(',')}}`;
  });
const envelope: fc.Arbitrary<Envelope> = fc
  .record({
    receivedAt: fc.constant(RECEIVED),
    type: fc.oneof(fc.constant(undefined), fc.constantFrom<MessageType>(...types)),
    sentAt: fc.constantFrom(undefined, null, RECEIVED - 5_000, RECEIVED + 1e14),
    context: fc.oneof({ weight: 9, arbitrary: fc.constant(undefined) }, fc.constant({ shared: 1, personas: 1 })),
    integrations: fc.oneof({ weight: 9, arbitrary: fc.constant(undefined) }, fc.constant({ All: true })),
    ip: fc.oneof(
      { weight: 9, arbitrary: fc.constant(undefined) },
      fc.constant({ mode: 'keep', from: '1.2.3.4' } as const),
    ),
  })
  .map(({ type, sentAt, context, integrations, ip, ...rest }) => ({
    ...{ ...rest, newId: () => 'made "here"' },
    ...{ ...(type && { type }), ...(sentAt !== undefined && { sentAt }), ...(context && { context }) },
    ...{ ...(integrations && { integrations }), ...(ip && { ip }) },
  }));

/** The message as the other way makes it; a word where there is none. */
function closely(body: JsonBody, given: Envelope): Message | string {
  try {
    const message = readMessage(body.whole.value(), given, body.whole.bytes);
    return isRejection(message) ? message.code : message;
  } catch (error) {
    return error instanceof RollcallError ? error.code : String(error);
  }
}

const contextOf = ({ body }: Message) => JSON.parse(body).context as Record<string, unknown>;

t.test('a message that is cut from its bytes is the one that is made by looking closely, to the byte', async (t) => {
  let cut = 0;
  fc.assert(
    fc.property(message, envelope, fc.boolean(), (json, given, isOnlyOne) => {
      let body: JsonBody;
      try {
        body = new JsonBody(Buffer.from(isOnlyOne ? json : `{"batch":[${json}, "é"]}`));
      } catch {
        return;
      }
      const part = isOnlyOne ? body.whole : body.items?.[0];
      const ordinary = part?.ordinary(given) ?? null;
      const made = ordinary ?? (isOnlyOne ? closely(body, given) : '');
      if (typeof made !== 'string') strictEqual(contextOf(made)['personas'], undefined);
      if (ordinary === null) return;
      cut += 1;
      const expected = closely(new JsonBody(Buffer.from(json)), given);
      if (typeof expected === 'string') throw new Error(`${expected}: ${json}`);
      strictEqual(ordinary.body, expected.body);
      deepStrictEqual(ordinary, expected);
      strictEqual(JSON.stringify(JSON.parse(ordinary.body)), ordinary.body);
    }),
    { numRuns },
  );
  t.ok(cut > numRuns / 20, `${cut} were cut`);
});

t.test('what the libraries send is cut, but for what has to be looked at', async (t) => {
  const folder = join(import.meta.dirname, '../collect/recorded');
  let cut = 0;
  let all = 0;
  for (const file of readdirSync(folder)) {
    const captures = JSON.parse(readFileSync(join(folder, file), 'utf8')) as { readonly body: object }[];
    for (const { body } of captures) {
      const given = { receivedAt: RECEIVED, newId: () => 'made', sentAt: RECEIVED - 7 };
      for (const item of new JsonBody(Buffer.from(JSON.stringify(body))).items ?? []) {
        all += 1;
        const ordinary = item.ordinary(given);
        if (ordinary === null) continue;
        cut += 1;
        deepStrictEqual(ordinary, readMessage(item.value(), given, item.bytes));
      }
    }
  }
  t.ok(cut > 0.6 * all, `${cut} of ${all}`);
});
