import { MAX_MESSAGE_BYTES } from '../message.ts';

/** Limits of requests. The defaults are those that clients of such services expect. */
export interface CollectLimits {
  /** Bytes of a single call after inflating. */
  readonly callBytes: number;
  /** Bytes of a batch after inflating. */
  readonly batchBytes: number;
  readonly batchMessages: number;
}

export const DEFAULT_LIMITS: CollectLimits = {
  callBytes: MAX_MESSAGE_BYTES,
  batchBytes: 512_000,
  batchMessages: 2_500,
};
