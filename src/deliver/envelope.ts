import { createHash } from 'node:crypto';

/** Bytes of a request with a batch, at most. */
export const BATCH_BYTES = 1_000_000;

/** A message in a batch, and the id of its delivery. */
export interface EnvelopeItem {
  readonly key: string;
  readonly body: Buffer;
}

const [START, BETWEEN, BEFORE_TIME, END] = ['{"batch":[', '],"keys":', ',"sentAt":"', '"}'];
const FRAME = `${START}${BETWEEN}[]${BEFORE_TIME}2026-01-01T00:00:00.000Z${END}`.length;

/** Bytes that a message takes in an envelope; without one, those of an empty envelope. */
export function envelopeBytes(bodyBytes = 0, key: string | null = null): number {
  return key === null ? FRAME : bodyBytes + key.length + '"",,'.length;
}

/** The body of a request that carries several messages (docs/wire.md). Each is exactly what would be sent alone. */
export function envelope(items: readonly EnvelopeItem[], sentAt: number): Buffer {
  const parts: Buffer[] = [Buffer.from(START)];
  for (const [index, { body }] of items.entries()) {
    if (index > 0) parts.push(COMMA);
    parts.push(body);
  }
  const keys = JSON.stringify(items.map(({ key }) => key));
  parts.push(Buffer.from(`${BETWEEN}${keys}${BEFORE_TIME}${new Date(sentAt).toISOString()}${END}`));
  return Buffer.concat(parts);
}

const COMMA = Buffer.from(',');

/** Names a batch by what is in it. */
export function batchId(items: readonly EnvelopeItem[]): string {
  const hash = createHash('sha256');
  for (const { key } of items) hash.update(key).update('\n');
  return hash.digest('hex');
}
