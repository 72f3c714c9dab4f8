import type { DeadReason } from '../kernel/dead-reasons.ts';
import type { MessageType } from '../message-types.ts';
import type { Attempt, Outcome } from './queue.ts';

export interface AttemptRecord extends Attempt {
  readonly delivery: string;
  readonly destination: string;
  readonly source: string;
  readonly type: MessageType;
  readonly userId: string | null;
  readonly messageId: string;
}

export interface AttemptFilter {
  readonly destination?: string;
  readonly endpoint?: string;
  readonly delivery?: string;
  readonly messageId?: string;
  readonly userId?: string;
  readonly outcome?: Outcome;
  readonly since?: number;
  readonly until?: number;
  readonly limit: number;
}

/** A page of the attempt log, last logged first. */
export interface AttemptPage {
  readonly attempts: readonly AttemptRecord[];
  /** Where the next page begins; null at the end of the log. */
  readonly next: number | null;
}

/** Where a message is on its way to a destination. */
export const MESSAGE_STATES = ['waiting', 'dead', 'delivered'] as const;

export type MessageState = (typeof MESSAGE_STATES)[number];

/** A message for one destination, as a search finds it. */
export interface MessageRecord {
  /** Of the delivery: its Idempotency-Key. */
  readonly id: string;
  readonly messageId: string;
  readonly source: string;
  readonly type: MessageType;
  /** Name of a track event; null for other kinds, and where the body is not kept. */
  readonly event: string | null;
  readonly userId: string | null;
  readonly destination: string;
  readonly state: MessageState;
  /** When it was accepted, died or was delivered. */
  readonly at: number;
  /** Whether its body is still there. */
  readonly kept: boolean;
}

export interface MessageFilter {
  readonly userId?: string;
  readonly messageId?: string;
  readonly type?: MessageType;
  readonly event?: string;
  readonly destination?: string;
  readonly state?: MessageState;
  readonly since?: number;
  readonly until?: number;
  readonly limit: number;
}

/** Waiting messages, then dead ones, then delivered ones; the newest first in each. */
export interface MessagePage {
  readonly messages: readonly MessageRecord[];
  /** Where the next page begins; null after the last. */
  readonly next: string | null;
}

/** A message whose body is there. */
export interface KeptMessage extends MessageRecord {
  readonly conflict: string | null;
  readonly acceptedAt: number;
  readonly body: string;
}

export interface DeadLetter {
  readonly id: string;
  readonly destination: string;
  readonly source: string;
  readonly type: MessageType;
  readonly userId: string | null;
  readonly messageId: string;
  readonly reason: DeadReason;
  readonly status: number | null;
  readonly attempts: number;
  readonly firstAt: number | null;
  readonly lastAt: number;
  readonly body: string;
  readonly conflict: string | null;
}

export interface DeadLetterFilter {
  readonly ids?: readonly string[];
  readonly destination?: string;
  readonly source?: string;
  readonly reason?: DeadReason;
  readonly type?: MessageType;
  readonly userId?: string;
  readonly conflictPrefix?: string;
  readonly since?: number;
  readonly until?: number;
  /** Only letters after this id, in the order of the listing. */
  readonly after?: string;
  readonly limit: number;
}

/** A page of dead letters. */
export interface DeadLetterPage {
  readonly letters: readonly DeadLetter[];
  /** The id that the next page begins behind; null after the last. */
  readonly next: string | null;
}

/** Samples kept of each source. */
export const DISCARDS_KEPT = 200;

/** A sample of what collection did not take. */
export interface Discard {
  readonly source: string;
  /** Why, as it was answered. */
  readonly code: string;
  readonly at: number;
  /** Its start, without what may be personal. */
  readonly message: string;
}

export interface DiscardFilter {
  readonly source?: string;
  readonly limit: number;
}

export interface DiscardPage {
  readonly discards: readonly Discard[];
  /** The cursor of the next page; null after the last. */
  readonly next: number | null;
}

/** The past of messages: attempts, dead letters, kept bodies, discards. */
export interface MessageRecords {
  attempts(filter: AttemptFilter): Promise<readonly AttemptRecord[]>;
  /** As `attempts`, from a place of the log on. It looks at a bounded part of the log, so that a page may be short. */
  attemptPage(filter: AttemptFilter, from: number | null): Promise<AttemptPage>;
  /** Goes on from `cursor`. It looks at a bounded part of what there is, so that a page may be short. */
  messagePage(filter: MessageFilter, cursor: string | null): Promise<MessagePage>;
  /** By the delivery's id; null where its body is not there. */
  message(id: string): Promise<KeptMessage | null>;
  /** Drops what was delivered until `until`; at most `limit`. */
  pruneDelivered(until: number, limit: number): Promise<number>;
  /**
   * Drops the oldest of what was delivered while it takes more than so many bytes; at most `limit`. 0 once it is within them.
   * It counts bodies, and a little for each row.
   */
  boundDelivered(bytes: number, limit: number): Promise<number>;
  deadLetters(filter: DeadLetterFilter): Promise<readonly DeadLetter[]>;
  /** Whether any delivery or dead letter has a conflict key that begins so. */
  hasUndelivered(conflictPrefix: string): Promise<boolean>;
  /** As `deadLetters`, newest ids first where asked for. It looks at a bounded part of them, so that a page may be short. */
  deadLetterPage(filter: DeadLetterFilter, newestFirst: boolean): Promise<DeadLetterPage>;
  /** Adds samples, in the order of time; of each source the newest 200 are kept. */
  saveDiscards(discards: readonly Discard[]): Promise<void>;
  /** The newest first. */
  discards(filter: DiscardFilter): Promise<readonly Discard[]>;
  /** As `discards`, a page at a time. */
  discardPage(filter: DiscardFilter, before: number | null): Promise<DiscardPage>;
  /** Drops the samples that name one of these users, of these sources or of any when null. */
  forgetDiscards(users: readonly string[], sources: readonly string[] | null): Promise<void>;
}
