import fc from 'fast-check';
import t from 'tap';
import { webhookBody } from '../../receivers/bodies.ts';
import { IP_MODES } from '../../src/kernel/ip.ts';
import { instant } from '../../src/kernel/timestamp.ts';
import { isRejection, readMessage } from '../../src/message.ts';
import { MESSAGE_TYPES } from '../../src/message-types.ts';
import { anyCharacter } from '../helpers/any-character.ts';

const RECEIVED = Date.parse('2026-11-21T03:00:00.000Z');
const times = {
  min: new Date('0000-01-01T00:00:00.000Z'),
  max: new Date('9999-12-31T23:59:59.999Z'),
  noInvalidDate: true,
};

const json = fc.jsonValue({ maxDepth: 4 });
const object = fc.dictionary(
  fc.oneof(fc.string({ unit: anyCharacter }), fc.constantFrom('__proto__', 'toJSON', '1', 'personas')),
  json,
);
const text = fc.string({ minLength: 1, maxLength: 20 });
const id = fc.oneof({ weight: 30, arbitrary: text }, fc.double(), fc.constantFrom(null, undefined, '', 1));
const near = fc.oneof({ weight: 30, arbitrary: object }, json, fc.constant([]));
const ip = fc.record({
  mode: fc.constantFrom(...IP_MODES),
  from: fc.option(fc.oneof(fc.ipV4(), fc.ipV6(), text)),
});

/** Nearly right messages, so that both outcomes are common; other keys are anything. */
const message = fc
  .tuple(
    object,
    fc.record(
      {
        type: fc.constantFrom(...MESSAGE_TYPES, 'other'),
        userId: id,
        anonymousId: id,
        messageId: id,
        groupId: id,
        previousId: id,
        event: id,
        name: id,
        traits: near,
        properties: near,
        context: near,
        integrations: near,
        timestamp: fc.oneof(
          json,
          fc.date(times).map((date) => date.toISOString()),
        ),
        sentAt: fc.oneof(
          json,
          fc.date(times).map((date) => date.toISOString()),
        ),
      },
      { requiredKeys: ['type'] },
    ),
  )
  .map(([rest, known]) => ({ ...rest, ...known }));

/** As the client's JSON arrives. */
const arrived = (value: unknown) => JSON.parse(JSON.stringify(value));
const read = (value: unknown, shared: object = {}) =>
  readMessage(arrived(value), { receivedAt: RECEIVED, newId: () => 'made', ...shared });

t.test('makes bodies that survive parsing and stringifying, without our own mark, for any input', async () => {
  fc.assert(
    fc.property(message, fc.option(object, { nil: undefined }), ip, (input, context, ip) => {
      const result = read(input, { ip, ...(context === undefined ? {} : { context: arrived(context) }) });
      if (isRejection(result)) return;
      const body = JSON.parse(result.body);
      if (JSON.stringify(body) !== result.body || Object.hasOwn(body.context, 'personas')) throw new Error(result.body);
    }),
    { numRuns: 500 },
  );
});

t.test('either rejects a message with a code and a sentence or makes a body that receivers accept', async (t) => {
  let bodies = 0;
  fc.assert(
    fc.property(fc.oneof({ weight: 9, arbitrary: message }, json), (input) => {
      const result = read(input);
      if (isRejection(result)) {
        if (!/^[a-z_]+$/.test(result.code) || !result.message.endsWith('.')) throw new Error(JSON.stringify(result));
        return;
      }
      bodies += 1;
      const body = JSON.parse(result.body);
      if (body.type !== result.type || result.messageId === '') throw new Error(result.body);
      webhookBody.parse(body);
    }),
    { numRuns: 500 },
  );
  t.ok(bodies > 50 && bodies < 450, `both outcomes were common (${bodies} bodies)`);
});

t.test('reads every notation of an instant alike', async () => {
  const offset = fc.integer({ min: -14 * 60, max: 14 * 60 });
  const safe = { min: new Date('0001-01-02T00:00:00Z'), max: new Date('9999-12-30T00:00:00Z'), noInvalidDate: true };
  const separator = fc.constantFrom('', ':');
  fc.assert(
    fc.property(
      fc.date(safe),
      offset,
      separator,
      fc.constantFrom('', '000', '123456'),
      (date, minutes, colon, digits) => {
        const local = new Date(date.getTime() + minutes * 60_000).toISOString().slice(0, -1);
        const two = (number: number) => String(number).padStart(2, '0');
        const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
        const text = `${local}${digits}${minutes < 0 ? '-' : '+'}${two(hours)}${colon}${two(rest)}`;
        if (instant(text) !== date.getTime()) throw new Error(`${text} is ${instant(text)}, not ${date.getTime()}`);
      },
    ),
  );
});

t.test('reads the output of toISOString exactly', async () => {
  const date = fc.oneof(
    fc.date(times),
    fc
      .constantFrom('2024-02-29T23:59:59.999Z', '0099-12-31T00:00:00.000Z', '2026-12-31T00:00:00.001Z')
      .map((text) => new Date(text)),
  );
  fc.assert(
    fc.property(date, (date) => {
      if (instant(date.toISOString()) !== date.getTime()) throw new Error(date.toISOString());
    }),
    { numRuns: 500 },
  );
});

t.test('does not read an impossible day or time of day by the fast path', async (t) => {
  const texts = [
    '2026-02-29T00:00:00.000Z',
    '2026-13-01T00:00:00.000Z',
    '2026-01-01T25:00:00.000Z',
    '2026-01-01T00:60:00.000Z',
  ];
  for (const text of [...texts, '2026-01-00T00:00:00.000Z', '2026-00-01T00:00:00.000Z'])
    t.equal(instant(text), null, text);
  t.equal(instant('2026-01-01T24:00:00.000Z'), Date.parse('2026-01-02T00:00:00.000Z'), 'the end of a day');
});

t.test('keeps the time between event and sending in the corrected timestamp', async () => {
  const lately = { min: new Date('2000-01-01T00:00:00Z'), max: new Date('2050-01-01T00:00:00Z'), noInvalidDate: true };
  fc.assert(
    fc.property(fc.date(lately), fc.integer({ min: 0, max: 10 ** 9 }), (happened, delay) => {
      const sentAt = new Date(happened.getTime() + delay).toISOString();
      const result = read({ type: 'track', event: 'e', userId: 'u', timestamp: happened.toISOString() }, { sentAt });
      if (isRejection(result)) throw new Error(result.code);
      const { timestamp } = JSON.parse(result.body);
      if (timestamp !== new Date(RECEIVED - delay).toISOString()) throw new Error(timestamp);
    }),
  );
});
