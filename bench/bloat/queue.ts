/** A queue with 4,000 messages waiting at any time: for each that leaves it, one comes in. */
export interface Queue {
  /** Takes this many messages through. */
  deliver(count: number): Promise<void>;
  close(): Promise<void>;
}

export const WAITING = 4_000;
