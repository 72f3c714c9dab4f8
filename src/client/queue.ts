import type { Keeper, SentBatch } from './platform.ts';

/** Follows every message; the tail overwrites the last one. Gives each message a line of its own in the spool. */
export const SEPARATOR = ',\n';

export interface QueueLimits {
  maxQueueCount: number;
  maxQueueBytes: number;
}

/** Creates batches and measures messages. */
export interface Batches {
  byteLength(text: string): number;
  /** @param spent a settled batch whose memory may be reused */
  newBatch(spent?: SentBatch): SentBatch;
}

/**
 * Waiting messages in the order of the calls, already grouped into batches. Only the last batch is open to more
 * messages. The first one stays here while it is in flight, so that the limits count it.
 */
export class SendQueue {
  count = 0;
  bytes = 0;
  #sealed: SentBatch[] = [];
  #open: SentBatch | undefined;
  #spent: SentBatch | undefined;
  /** Messages removed since the start. */
  #removed = 0;
  readonly #limits: QueueLimits;
  readonly #batches: Batches;
  readonly #keeper: Keeper | undefined;

  constructor(limits: QueueLimits, batches: Batches, keeper?: Keeper, kept: SentBatch[] = []) {
    this.#limits = limits;
    this.#batches = batches;
    this.#keeper = keeper;
    for (const batch of kept) {
      this.#sealed.push(batch);
      this.count += batch.count;
      this.bytes += batch.bytes;
    }
  }

  /** Messages in the open batch. */
  get gathered(): number {
    return this.#open?.count ?? 0;
  }

  /** The batch that is in flight or will be sent next, if it is closed. */
  get first(): SentBatch | undefined {
    return this.#sealed[0];
  }

  /** True if the first batch accepts no more messages. */
  get full(): boolean {
    return this.#sealed.length > 0;
  }

  /** Messages added since the start. All that are queued now have left once `removed` reaches this number. */
  get taken(): number {
    return this.#removed + this.count;
  }

  get removed(): number {
    return this.#removed;
  }

  /** @returns false if the queue is full and the message was not added */
  add(text: string): boolean {
    const bytes = this.#batches.byteLength(text) + SEPARATOR.length;
    if (this.count >= this.#limits.maxQueueCount || this.bytes + bytes > this.#limits.maxQueueBytes) return false;
    const batch = this.#open ?? this.#begin();
    if (!batch.add(text, bytes)) {
      this.#seal();
      return this.add(text);
    }
    this.count++;
    this.bytes += bytes;
    this.#keeper?.append(batch, text);
    return true;
  }

  /** The batch to send now, if there is a message. It is closed only here, so that messages gather in few requests. */
  next(): SentBatch | undefined {
    if (!this.full) this.#seal();
    return this.#sealed[0];
  }

  /** All batches, first to last. */
  all(): SentBatch[] {
    return this.#open ? [...this.#sealed, this.#open] : this.#sealed;
  }

  /**
   * Removes the first batch, which is settled.
   *
   * @param isRead true if its messages may still be read
   */
  remove(isRead = false): void {
    const batch = this.#sealed.shift();
    if (!batch) return;
    this.#removed += batch.count;
    this.count -= batch.count;
    this.bytes -= batch.bytes;
    this.#keeper?.forget(batch);
    if (!isRead) this.#spent = batch;
  }

  #seal(): void {
    if (this.#open) this.#sealed.push(this.#open);
    this.#open = undefined;
  }

  #begin(): SentBatch {
    const batch = this.#batches.newBatch(this.#spent);
    this.#spent = undefined;
    this.#open = batch;
    return batch;
  }
}
