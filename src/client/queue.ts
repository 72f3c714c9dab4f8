import { Batch, sizeInBatch } from './batch.ts';
import type { Clock } from './clock.ts';

export interface QueueLimits {
  maxQueueCount: number;
  maxQueueBytes: number;
  clock: Clock;
}

/** Keeps what is queued beyond the life of the process. */
export interface Keeper {
  /** The bytes of one message, before the call that queued it returns. */
  append(batch: Batch, line: Buffer): void;
  /** The batch needs no keeping any more. */
  forget(batch: Batch): void;
}

/**
 * Messages waiting, in the order of the calls, as the batches that they will be sent in. Only the last batch is open
 * to more messages. The first one stays here while it is in flight, so that the limits count it.
 */
export class Queue {
  count = 0;
  bytes = 0;
  #sealed: Batch[] = [];
  #open: Batch | undefined;
  #spare: Buffer | undefined;
  /** Messages removed since the start. */
  #removed = 0;
  readonly #limits: QueueLimits;
  readonly #keeper: Keeper | undefined;

  constructor(limits: QueueLimits, keeper?: Keeper, kept: Batch[] = []) {
    this.#limits = limits;
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
    const bytes = sizeInBatch(text);
    if (this.count >= this.#limits.maxQueueCount || this.bytes + bytes > this.#limits.maxQueueBytes) return false;
    const batch = this.#open ?? this.#begin();
    if (!batch.add(text, bytes)) {
      this.#seal();
      return this.add(text);
    }
    this.count++;
    this.bytes += bytes;
    this.#keeper?.append(batch, batch.last(bytes));
    return true;
  }

  /** The batch to send now, if there is a message. It is closed no earlier, so that messages gather in few requests. */
  next(): Batch | undefined {
    if (!this.full) this.#seal();
    return this.#sealed[0];
  }

  /** All batches, first to last. */
  all(): Batch[] {
    return this.#open ? [...this.#sealed, this.#open] : this.#sealed;
  }

  /** Takes out the first batch, which is settled. */
  remove(): void {
    const batch = this.#sealed.shift();
    if (!batch) return;
    this.#removed += batch.count;
    this.count -= batch.count;
    this.bytes -= batch.bytes;
    this.#keeper?.forget(batch);
    this.#spare = batch.recycle();
  }

  #seal(): void {
    if (this.#open) this.#sealed.push(this.#open);
    this.#open = undefined;
  }

  #begin(): Batch {
    const batch = new Batch(this.#limits.clock.now(), this.#spare);
    this.#spare = undefined;
    this.#open = batch;
    return batch;
  }
}
