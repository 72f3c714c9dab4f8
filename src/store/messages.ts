import type { DeadReason } from '../kernel/dead-reasons.ts';
import type { MessageType } from '../message-types.ts';
import type { Attempt, Claim, Outcome } from './queue.ts';

type Addressed = Pick<Claim, 'destination' | 'source' | 'type' | 'userId' | 'messageId'>;

export interface AttemptRecord extends Attempt, Addressed {
  readonly delivery: string;
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
  /** Start of the next page; null at the end of the log. */
  readonly next: number | null;
}

export const MESSAGE_STATES = ['waiting', 'dead', 'delivered'] as const;

export type MessageState = (typeof MESSAGE_STATES)[number];

export interface MessageRecord extends Addressed {
  /** Id of the delivery, its Idempotency-Key. */
  readonly id: string;
  /** Name of a track event; null for other types, or if the body is not kept. */
  readonly event: string | null;
  /** Of a membership change sent as an identify; absent for others, and if the body is not kept. */
  readonly traits?: object;
  readonly state: MessageState;
  /** Time it was accepted, died or was delivered, depending on `state`. */
  readonly at: number;
  /** True while its body is kept. */
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

/** Waiting messages, then dead ones, then delivered ones, each newest first. */
export interface MessagePage {
  readonly messages: readonly MessageRecord[];
  /** Cursor of the next page; null after the last. */
  readonly next: string | null;
}

export interface KeptMessage extends MessageRecord {
  readonly conflict: string | null;
  readonly acceptedAt: number;
  readonly body: string;
}

export interface DeadLetter extends Addressed, Pick<Claim, 'id' | 'body' | 'conflict'> {
  readonly reason: DeadReason;
  readonly status: number | null;
  readonly attempts: number;
  readonly firstAt: number | null;
  readonly lastAt: number;
}

export interface DeadLetterFilter {
  readonly ids?: readonly string[];
  readonly destination?: string;
  readonly source?: string;
  readonly reason?: DeadReason;
  readonly type?: MessageType;
  readonly userId?: string;
  readonly conflictPrefix?: string;
  /** Only letters with one of these conflict keys. */
  readonly conflicts?: readonly string[];
  readonly since?: number;
  readonly until?: number;
  /** Only letters after this id, in listing order. */
  readonly after?: string;
  readonly limit: number;
}

export interface DeadLetterPage {
  readonly letters: readonly DeadLetter[];
  /** Pass as `after` for the next page; null after the last. */
  readonly next: string | null;
}

/** Samples kept per source. */
export const DISCARDS_KEPT = 200;

export interface Discard {
  readonly source: string;
  readonly code: string;
  readonly at: number;
  /** Start of the message, without personal data. */
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

export interface MessageRecords {
  attempts(filter: AttemptFilter): Promise<readonly AttemptRecord[]>;
  /** As `attempts`, from a position of the log on. Scans a bounded part of the log, so a page may be short. */
  attemptPage(filter: AttemptFilter, from: number | null): Promise<AttemptPage>;
  /** Continues from `cursor`. Scans a bounded part, so a page may be short. */
  messagePage(filter: MessageFilter, cursor: string | null): Promise<MessagePage>;
  /** Finds a message by delivery id; null if its body is not kept. */
  message(id: string): Promise<KeptMessage | null>;
  pruneDelivered(until: number, limit: number): Promise<number>;
  /**
   * Drops the oldest delivered messages while they take more than `bytes`, at most `limit`. Resolves to 0 once within
   * bounds. Counts bodies and a little per row.
   */
  boundDelivered(bytes: number, limit: number): Promise<number>;
  deadLetters(filter: DeadLetterFilter): Promise<readonly DeadLetter[]>;
  /** True if any delivery or dead letter has a conflict key with this prefix. */
  hasUndelivered(conflictPrefix: string): Promise<boolean>;
  /** As `deadLetters`, optionally newest ids first. Scans a bounded part, so a page may be short. */
  deadLetterPage(filter: DeadLetterFilter, newestFirst: boolean): Promise<DeadLetterPage>;
  /** Adds samples in order of time; the newest 200 per source are kept. */
  saveDiscards(discards: readonly Discard[]): Promise<void>;
  /** Newest first. */
  discards(filter: DiscardFilter): Promise<readonly Discard[]>;
  discardPage(filter: DiscardFilter, before: number | null): Promise<DiscardPage>;
  /** Removes users from texts of runs and alerts, and samples of these sources (null: any) that name one of them. */
  forgetTexts(users: readonly string[], sources: readonly string[] | null): Promise<void>;
}
