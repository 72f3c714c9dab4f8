import type { Keeper, SentBatch } from './platform.ts';

/** After every message; the last one is overwritten by the tail. A line of its own for each suits the spool. */
export const SEPARATOR = ',\n';

export interface QueueLimits {
  maxQueueCount: number;
  maxQueueBytes: number;
}

/** Makes the batches, and measures what goes into them. */
export interface Batches {
  byteLength(text: string): number;
  /** @param spent one that is settled, whose memory may be used again */
  newBatch(spent?: SentBatch): SentBatch;
}

/**
 * Messages waiting, in the order of the calls, as the batches that they will be sent in. Only the last batch is open
 * to more messages. The first one stays here while it is in flight, so that the limits count it.
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

  /** The batch that is in flight, or was taken for it. */
  get first(): SentBatch | undefined {
    return this.#sealed[0];
  }

  /** Whether the first batch takes no more messages. */
  get full(): boolean {
    return this.#sealed.length > 0;
  }

  /** Messages taken since the start, and of these removed: what is here now has left once `removed` is at `taken`. */
  get taken(): number {
    return this.#removed + this.count;
  }

  get removed(): number {
    return this.#removed;
  }

  /** @returns false if the queue is full, and the message is not taken. */
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

  /** The batch to send now, if there is a message. It is closed no earlier, so that messages gather in few requests. */
  next(): SentBatch | undefined {
    if (!this.full) this.#seal();
    return this.#sealed[0];
  }

  /** All batches, first to last. */
  all(): SentBatch[] {
    return this.#open ? [...this.#sealed, this.#open] : this.#sealed;
  }

  /**
   * Takes out the first batch, which is settled.
   *
   * @param isRead whether somebody may still read its messages
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
