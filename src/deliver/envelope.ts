import { createHash } from 'node:crypto';

export const BATCH_BYTES = 1_000_000;

export interface EnvelopeItem {
  readonly key: string;
  readonly body: string | Buffer;
}

const [START, BETWEEN, BEFORE_TIME, END] = ['{"batch":[', '],"keys":', ',"sentAt":"', '"}'];
const FRAME = `${START}${BETWEEN}[]${BEFORE_TIME}2026-01-01T00:00:00.000Z${END}`.length;

/** Bytes that a message adds to an envelope; without arguments, those of an empty envelope. */
export function envelopeBytes(bodyBytes = 0, key: string | null = null): number {
  return key === null ? FRAME : bodyBytes + key.length + '"",,'.length;
}

/** The body of a request with several messages (docs/wire.md). Each is exactly as it would be sent alone. */
export function envelope(items: readonly EnvelopeItem[], sentAt: number): Buffer {
  let bodies = '';
  for (const { body } of items) bodies += bodies === '' ? `${body}` : `,${body}`;
  const keys = JSON.stringify(items.map(({ key }) => key));
  return Buffer.from(`${START}${bodies}${BETWEEN}${keys}${BEFORE_TIME}${new Date(sentAt).toISOString()}${END}`);
}

export function batchId(items: readonly EnvelopeItem[]): string {
  return createHash('sha256')
    .update(items.map(({ key }) => `${key}\n`).join(''))
    .digest('hex');
}
