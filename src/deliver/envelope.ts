import { createHash } from 'node:crypto';

/** Bytes of a request with a batch, at most. */
export const BATCH_BYTES = 1_000_000;

/** A message in a batch, and the id of its delivery. */
export interface EnvelopeItem {
  readonly key: string;
  readonly body: string | Buffer;
}

const [START, BETWEEN, BEFORE_TIME, END] = ['{"batch":[', '],"keys":', ',"sentAt":"', '"}'];
const FRAME = `${START}${BETWEEN}[]${BEFORE_TIME}2026-01-01T00:00:00.000Z${END}`.length;

/** Bytes that a message takes in an envelope; without one, those of an empty envelope. */
export function envelopeBytes(bodyBytes = 0, key: string | null = null): number {
  return key === null ? FRAME : bodyBytes + key.length + '"",,'.length;
}

/** The body of a request that carries several messages (docs/wire.md). Each is exactly what would be sent alone. */
export function envelope(items: readonly EnvelopeItem[], sentAt: number): Buffer {
  let bodies = '';
  for (const { body } of items) bodies += bodies === '' ? `${body}` : `,${body}`;
  const keys = JSON.stringify(items.map(({ key }) => key));
  return Buffer.from(`${START}${bodies}${BETWEEN}${keys}${BEFORE_TIME}${new Date(sentAt).toISOString()}${END}`);
}

/** Names a batch by what is in it. */
export function batchId(items: readonly EnvelopeItem[]): string {
  return createHash('sha256')
    .update(items.map(({ key }) => `${key}\n`).join(''))
    .digest('hex');
}
