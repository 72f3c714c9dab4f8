import fc from 'fast-check';
import { webhook } from '../../../receivers/testing.ts';

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
const headerText = fc.string({ maxLength: 60 }).map((text) => text.replace(/[^\x20-\x7e]/g, '-').trim());
const signatures = fc.oneof(
  fc.constant(undefined),
  headerText,
  fc.stringMatching(/^[0-9a-fA-F]{38,42}$/),
  fc.constant('right' as const),
);
/** Requests of all kinds; those whose signature is `right` are to be signed. */
export const requests = fc.record({
  body: documents,
  signature: signatures,
  headers: fc.dictionary(
    fc.constantFrom('content-type', 'content-encoding', 'idempotency-key', 'x-other', 'user-agent'),
    fc.oneof(fc.constantFrom('application/json', 'identity', 'gzip'), headerText),
  ),
});
