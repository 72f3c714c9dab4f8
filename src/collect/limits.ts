import { MAX_MESSAGE_BYTES } from '../message.ts';
import type { StrangerLimits } from './strangers.ts';

/** Limits of requests. The defaults are those that clients of such services expect. */
export interface CollectLimits extends StrangerLimits {
  /** Bytes of a single call after inflating. */
  readonly callBytes: number;
  /** Bytes of a batch after inflating. */
  readonly batchBytes: number;
  readonly batchMessages: number;
  /** Bytes of all requests whose source is known, from their arrival until they are answered; beyond them new ones get 503. */
  readonly pendingBytes: number;
}

export const DEFAULT_LIMITS: CollectLimits = {
  callBytes: MAX_MESSAGE_BYTES,
  batchBytes: 512_000,
  batchMessages: 2_500,
  pendingBytes: 128 * 1024 * 1024,
  strangerBytes: 8 * 1024 * 1024,
  strangerSockets: 1_024,
  strangerTime: 10_000,
};
