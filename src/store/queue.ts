import type { DeadReason } from '../kernel/dead-reasons.ts';
import type { MessageType } from '../message-types.ts';
import type { ErasedIds } from './deleted-ids.ts';
import type { Fence } from './fleet.ts';
import type { LiveCommit } from './live.ts';

/** Deletion notices go first, then live messages, then backfills. The indexes are codes of the disk format. */
export const LANES = ['deletion', 'live', 'backfill'] as const;

export type Lane = (typeof LANES)[number];

/** An incoming message, already routed; it becomes one delivery per destination. */
export interface NewMessage {
  readonly source: string;
  /** Deduplicated per source for at least 24 hours. */
  readonly messageId: string;
  readonly type: MessageType;
  readonly userId: string | null;
  /** The JSON text that is signed and sent unchanged. */
  readonly body: string;
  readonly destinations: readonly string[];
  readonly lane: Lane;
  /** Names the user and audience of a membership change: a newer one supersedes an older one (docs/delivery.md). */
  readonly conflict: string | null;
  /** A further key that it supersedes: that of the other form of the change. */
  readonly replaces?: string;
}

/** A run's position in its plan after a batch; checked and moved in the same transaction. */
export interface PlanStep {
  readonly run: string;
  readonly fence: Fence;
  /** The cursor after this batch, as the engine gave it. */
  readonly cursor: string;
  /**
   * The cursor before it, if the batch is part of a plan. It shows if the batch was accepted already, so its message
   * ids need not be remembered. Undefined if the cursor stays and each message is known by its id.
   */
  readonly after?: string | null | undefined;
  /** The deletion epoch up to which deleted users were left out of this batch. */
  readonly epoch: number;
}

export interface AcceptRequest {
  readonly messages: readonly NewMessage[];
  readonly step: PlanStep | null;
  /** A step of the live computation, in the same transaction. */
  readonly live?: LiveCommit | null;
  /** Also writes accepted messages to the event log, in the same transaction. */
  readonly logged?: boolean;
  readonly take?: Take | null;
}

/**
 * Room for deliveries that are claimed on acceptance, which saves a write and a read. A store need not fill it.
 * Membership changes are never claimed this way, since they can be superseded until they are claimed.
 */
export interface Take {
  readonly owner: number;
  /** Maximum number of deliveries by destination. */
  readonly room: ReadonlyMap<string, number>;
}

export interface AcceptResult {
  readonly accepted: number;
  readonly duplicates: number;
  /** Messages of suppressed or deleted users. */
  readonly suppressed: number;
  readonly claims?: readonly Claim[];
}

/** The outcome at each endpoint within one delivery; those not named may be tried. */
export type EndpointMarks = Readonly<Record<string, 'ok' | 'refused'>>;

/** A delivery held by this process until it is settled or the process's lease ends. */
export interface Claim extends Omit<NewMessage, 'destinations' | 'replaces'> {
  /** Unique across all stores; sent as `Idempotency-Key`. */
  readonly id: string;
  readonly destination: string;
  readonly run: string | null;
  readonly tries: number;
  readonly acceptedAt: number;
  /** Time of the first attempt, which starts the four hours; null before it. */
  readonly firstAt: number | null;
  readonly marks: EndpointMarks;
  /** Abnormal ends of processes that held it since its last completed try: see `rescue`. */
  readonly crashes: number;
}

export const NO_MARKS: EndpointMarks = {};

export interface ClaimRequest {
  readonly destination: string;
  readonly limit: number;
  /** Which go first: first tries by lane, due retries (one claim in eight), or backfills (likewise). */
  readonly order: 'usual' | 'retries' | 'backfills';
  /** Maximum number of retries per lane; unlimited if absent. */
  readonly retries?: number;
}

export interface ClaimResult {
  /** Claimed deliveries by request. */
  readonly claims: readonly (readonly Claim[])[];
  /** Due time of the next retry, by destination that gave fewer than asked; null if nothing waits. */
  readonly nextDue: ReadonlyMap<string, number | null>;
}

export const OUTCOMES = ['success', 'retry', 'refused', 'tls_untrusted', 'address_refused', 'skipped'] as const;

export type Outcome = (typeof OUTCOMES)[number];

/** One POST to one endpoint, or why it was not made. */
export interface Attempt {
  readonly endpoint: string;
  readonly at: number;
  readonly ms: number;
  readonly outcome: Outcome;
  /** HTTP status; null when none arrived. */
  readonly status: number | null;
  /** Machine-readable cause, such as `timeout` or `ECONNREFUSED`; null on success. */
  readonly error: string | null;
  /** Start of a failed endpoint's response. */
  readonly response: string | null;
}

export type Verdict =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'retry'; readonly dueAt: number; readonly firstAt: number; readonly marks: EndpointMarks }
  /** Released untried, due at once or at `dueAt`; not counted as a try. */
  | { readonly kind: 'release'; readonly dueAt: number | null }
  | {
      readonly kind: 'dead';
      readonly reason: DeadReason;
      readonly status: number | null;
      readonly firstAt: number | null;
      /**
       * Set if the endpoint that refused it may be refusing everything: the outcomes at the others. Such letters may be
       * sent again automatically.
       */
      readonly marks?: EndpointMarks | null;
      /** Outcome by endpoint, if the last try changed it: endpoints that took the delivery are skipped in a replay. */
      readonly answers?: EndpointMarks;
    };

export interface Settlement {
  readonly claim: Claim;
  readonly verdict: Verdict;
  readonly attempts: readonly Attempt[];
}

/** A dead letter to send again, with a new body if its value has changed since. */
export interface Replay {
  readonly id: string;
  readonly body: string | null;
}

/** Maximum gap between two delivering processes that counts as a restart, in milliseconds. */
export const SERVED_GAP = 60_000;

export interface Queue {
  /** Writes a batch, all or nothing. Deliveries beyond a destination's limit become dead letters with `queue_full`. */
  accept(request: AcceptRequest): Promise<AcceptResult>;

  /** Joins the delivering processes for `ttl` milliseconds; the returned owner identifies this process. */
  join(ttl: number): Promise<number>;
  /** Extends the lease; false if it had expired and the claims went to others. */
  heartbeat(owner: number, ttl: number): Promise<boolean>;
  /**
   * Since when some process has been delivering, without a gap of more than a minute. During a gap nobody knows if an
   * endpoint answers. An apparent gap may be a clock step.
   */
  servedSince(): Promise<number>;
  /** Ends the lease and frees the claims still held. */
  leave(owner: number): Promise<void>;
  /**
   * Frees the claims of processes whose leases have expired; resolves to their number. For other processes' claims it
   * counts an abnormal end. The first one counts for everything the process held, further ones only for claims it had
   * recorded with `begin`. Completed tries and clean exits count for nothing.
   */
  rescue(): Promise<number>;
  /** Records that these claims will be posted. Needed only for claims held at an earlier abnormal end. */
  begin(owner: number, claims: readonly Claim[]): Promise<void>;

  claim(owner: number, requests: readonly ClaimRequest[]): Promise<ClaimResult>;
  /**
   * Applies verdicts; those over claims that this owner no longer holds are ignored. With `keeps`, delivered messages
   * are kept, to be found and sent again.
   */
  settle(owner: number, settlements: readonly Settlement[], keeps?: boolean): Promise<void>;

  /**
   * Expires deliveries first held back or tried before `before`; resolves to their number, at most `limit`. With
   * `untriedToo` also those never tried, including held-out ones; with `sparesNotices` no deletion notices.
   */
  expire(
    destination: string,
    before: number,
    untriedToo: boolean,
    limit: number,
    sparesNotices?: boolean,
  ): Promise<number>;
  /**
   * Restarts the four hours of a destination's deletion notices with their next try, because nobody serves it. Resolves
   * to the number of notices that had been tried, at most `limit`.
   */
  restNotices(destination: string, limit: number): Promise<number>;
  /**
   * Makes dead letters (`destination_removed`) of up to `limit` deliveries of a removed destination, and drops its
   * deletion notices. With `unknownFor`, only while it has been counted as an orphan for that long.
   */
  bury(destination: string, limit: number, unknownFor?: number): Promise<number>;
  /**
   * Requeues letters held out by a full queue, oldest first and unchanged, once a quarter of the queue is free.
   * Resolves to their number, at most `limit`.
   */
  requeue(destination: string, limit: number): Promise<number>;

  /** Requeues dead letters; one whose conflict key has a newer pending delivery is dropped instead. */
  replay(replays: readonly Replay[]): Promise<number>;
  drop(ids: readonly string[]): Promise<number>;
  /**
   * Queues kept messages again under new ids, since receivers take the same id for the same message. Skips messages
   * whose conflict key has a newer pending delivery, and those of users being deleted.
   */
  deliverAgain(replays: readonly Replay[]): Promise<number>;
  /**
   * Requeues a destination's letters, unchanged, that died since `from` because an endpoint refused everything. Up to
   * `limit`, in order of acceptance, after the cursor `after`. A letter whose conflict key has a newer delivery is
   * dropped; letters about users being deleted stay. Resolves to the next cursor, null once none is left.
   */
  resend(destination: string, from: number, after: string | null, limit: number): Promise<string | null>;

  /**
   * Erases ids from pending deliveries, dead letters, kept messages and attempts, a page at a time from `cursor` on:
   * others' messages lose them, and stay the same deliveries.
   * Resolves to the next cursor, null when done. `sources` null means any source. `inFlight` counts their deliveries
   * that are being posted now.
   */
  erase(
    ids: ErasedIds,
    sources: readonly string[] | null,
    cursor: string | null,
  ): Promise<{ readonly cursor: string | null; readonly inFlight: number }>;
  /** Drops attempts made before `before`, and message ids older than the dedupe window; at most `limit` rows. */
  prune(before: number, limit: number): Promise<number>;
}
