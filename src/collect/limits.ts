import { MAX_MESSAGE_BYTES } from '../message.ts';

/** What a request may ask of the service; the defaults are those that clients of this field expect. */
export interface CollectLimits {
  /** Bytes of a single call after inflating. */
  readonly callBytes: number;
  /** Bytes of a batch after inflating. */
  readonly batchBytes: number;
  /** Messages in a batch. */
  readonly batchMessages: number;
  /** Bytes of all requests being worked on; beyond them new ones are answered 503. */
  readonly pendingBytes: number;
}

export const DEFAULT_LIMITS: CollectLimits = {
  callBytes: MAX_MESSAGE_BYTES,
  batchBytes: 512_000,
  batchMessages: 2_500,
  pendingBytes: 128 * 1024 * 1024,
};
