import fc from 'fast-check';
import { envelope, webhook } from '../../../receivers/testing.ts';

const valid = JSON.stringify(webhook('track'));
/** Bodies, few of them messages. */
export const documents = fc.oneof(
  fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
  fc.json().map((text) => Buffer.from(text)),
  fc.constant(Buffer.from(valid)),
  fc
    .tuple(
      fc.constantFrom('type', 'version', 'event', 'timestamp', 'context', 'properties', '__proto__'),
      fc.jsonValue(),
    )
    .map(([key, value]) => Buffer.from(JSON.stringify({ ...JSON.parse(valid), [key]: value }))),
);
const pieces = fc.oneof(
  documents.map((bytes) => bytes.toString()),
  fc.constantFrom(
    '{"type":"track","__proto__":{"admin":true}}',
    '{"type":"x","\\u005f_proto__":{"admin":true}}',
    '},{"version":1,',
    '],"keys":[',
    '',
  ),
);
const at = new Date().toISOString();
/** Batches, most of them with something that is none. */
const batches = fc
  .tuple(
    fc.array(pieces, { maxLength: 5 }),
    fc.option(fc.array(fc.jsonValue(), { maxLength: 5 }), { nil: undefined }),
    fc.constantFrom(at, at, 'soon', ''),
  )
  .map(([texts, keys, sentAt]) => {
    const given = JSON.stringify(keys ?? texts.map((_, index) => `key ${index}`));
    return Buffer.from(`{"batch":[${texts.join(',')}],"keys":${given},"sentAt":"${sentAt}"}`);
  });
/** What is nested so deep that whoever walks it by calling himself runs out of stack. */
const nested = fc
  .tuple(fc.constantFrom('[', '{"a":', '{"__proto__":'), fc.integer({ min: 1, max: 20_000 }))
  .map(([open, depth]) => {
    const close = open === '[' ? ']' : '}';
    const value = `${open.repeat(depth)}0${close.repeat(depth)}`;
    const body = valid.replace('"context":{}', `"context":{"deep":${value}}`);
    return Buffer.from(depth % 2 === 0 ? body : envelope([body, valid, body]));
  });
const headerText = fc.string({ maxLength: 60 }).map((text) => text.replace(/[^\x20-\x7e]/g, '-').trim());
const signatures = fc.oneof(
  fc.constant(undefined),
  headerText,
  fc.stringMatching(/^[0-9a-fA-F]{38,42}$/),
  fc.constant('right' as const),
);
/** Requests of all kinds; those whose signature is `right` are to be signed. */
export const requests = fc.record({
  body: fc.oneof(
    { weight: 6, arbitrary: documents },
    { weight: 3, arbitrary: batches },
    { weight: 1, arbitrary: nested },
  ),
  signature: signatures,
  headers: fc.dictionary(
    fc.constantFrom('content-type', 'content-encoding', 'idempotency-key', 'x-other', 'user-agent'),
    fc.oneof(fc.constantFrom('application/json', 'identity', 'gzip'), headerText),
  ),
});
