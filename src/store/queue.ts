import type { DeadReason } from '../kernel/dead-reasons.ts';
import type { MessageType } from '../message-types.ts';
import type { Fence } from './fleet.ts';
import type { LiveCommit } from './live.ts';

/** Deletion notices go before live messages, and those before backfills. Their places are codes of the disk format. */
export const LANES = ['deletion', 'live', 'backfill'] as const;

export type Lane = (typeof LANES)[number];

/** A message on its way in, already routed; one delivery is made for each of its destinations. */
export interface NewMessage {
  readonly source: string;
  /** Deduplicated per source for at least 24 hours. */
  readonly messageId: string;
  readonly type: MessageType;
  readonly userId: string | null;
  /** The JSON text that is signed and sent as it is. */
  readonly body: string;
  readonly destinations: readonly string[];
  readonly lane: Lane;
  /** Names the user and audience of a membership change: a newer one supersedes an older one (docs/delivery.md). */
  readonly conflict: string | null;
}

/** Where a run stands in its plan once a batch is accepted; checked and moved in the same transaction. */
export interface PlanStep {
  readonly run: string;
  readonly fence: Fence;
  /** The cursor after this batch, as the engine gave it. */
  readonly cursor: string;
  /**
   * The cursor before it, where the batch is a part of a plan. It shows whether the batch was accepted already, so the
   * ids of its messages need not be remembered. Undefined where the cursor stays, and each message is known by its id.
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
  /** Writes those that are accepted into the event log, in the same transaction. */
  readonly logged?: boolean;
  /** Takes deliveries as they are accepted. */
  readonly take?: Take | null;
}

/**
 * Room for deliveries that are claimed as they are accepted: they are neither written nor read a second time. A store need
 * not fill it. Membership changes are never taken so, since they can be superseded until they are claimed.
 */
export interface Take {
  readonly owner: number;
  /** The most deliveries, by destination. */
  readonly room: ReadonlyMap<string, number>;
}

export interface AcceptResult {
  readonly accepted: number;
  readonly duplicates: number;
  /** Messages of users who are to be kept out. */
  readonly suppressed: number;
  /** The deliveries claimed for the owner of `take`. */
  readonly claims?: readonly Claim[];
}

/** The outcome at each endpoint within one delivery; those not named may be tried. */
export type EndpointMarks = Readonly<Record<string, 'ok' | 'refused'>>;

/** A delivery handed to this process until it is settled or the process's lease ends. */
export interface Claim {
  /** Unique over all stores; sent as `Idempotency-Key`. */
  readonly id: string;
  readonly destination: string;
  readonly source: string;
  readonly messageId: string;
  readonly type: MessageType;
  readonly userId: string | null;
  readonly body: string;
  readonly lane: Lane;
  readonly conflict: string | null;
  readonly run: string | null;
  /** Tries so far. */
  readonly tries: number;
  readonly acceptedAt: number;
  /** Start of the four hours: the first attempt; null before it. */
  readonly firstAt: number | null;
  readonly marks: EndpointMarks;
  /** Abnormal ends of processes that held it, since its last completed try: see `rescue`. */
  readonly crashes: number;
}

/** Of a delivery that no endpoint has answered for good. */
export const NO_MARKS: EndpointMarks = {};

export interface ClaimRequest {
  readonly destination: string;
  readonly limit: number;
  /** Which go first: first tries in the order of the lanes, due retries (one claim in eight), or backfills (likewise). */
  readonly order: 'usual' | 'retries' | 'backfills';
  /** Retries of a lane at most; without it as many as there is room for. */
  readonly retries?: number;
}

export interface ClaimResult {
  /** For each request, the deliveries claimed. */
  readonly claims: readonly (readonly Claim[])[];
  /** For each destination that gave fewer than asked: when its next retry is due; null when nothing waits. */
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
  /** The start of what a failed endpoint answered. */
  readonly response: string | null;
}

/** The verdict over a claimed delivery. */
export type Verdict =
  | { readonly kind: 'delivered' }
  /** It failed; it is tried again at `dueAt`. */
  | { readonly kind: 'retry'; readonly dueAt: number; readonly firstAt: number; readonly marks: EndpointMarks }
  /** Given back untried, at once or at `dueAt`; not charged as a try. */
  | { readonly kind: 'release'; readonly dueAt: number | null }
  | {
      readonly kind: 'dead';
      readonly reason: DeadReason;
      readonly status: number | null;
      readonly firstAt: number | null;
      /**
       * Of one that an endpoint refused which may refuse everything: what became of the others. Such letters may be sent again
       * by themselves.
       */
      readonly marks?: EndpointMarks | null;
      /** What became of each endpoint, where its last try changed that: one that took it does not get it again by a replay. */
      readonly answers?: EndpointMarks;
    };

export interface Settlement {
  readonly claim: Claim;
  readonly verdict: Verdict;
  readonly attempts: readonly Attempt[];
}

/** A dead letter sent again, with another body where the value of now differs. */
export interface Replay {
  readonly id: string;
  readonly body: string | null;
}

/** Between two processes that deliver, no more than a restart, in milliseconds. */
export const SERVED_GAP = 60_000;

/** Deliveries on their way: what takes them in, hands them to processes, and takes them out again. */
export interface Queue {
  /** Writes a batch or nothing. What is beyond a destination's limit becomes a dead letter `queue_full`. */
  accept(request: AcceptRequest): Promise<AcceptResult>;

  /** Joins the processes that deliver, for `ttl` milliseconds; the returned owner names this process in this store. */
  join(ttl: number): Promise<number>;
  /** Extends the lease; false when it had ended and the claims were given to others. */
  heartbeat(owner: number, ttl: number): Promise<boolean>;
  /**
   * Since when some process has been delivering, without a gap of more than a minute. In a gap nobody knows whether an endpoint
   * answers. An apparent gap may be a step of the clock.
   */
  servedSince(): Promise<number>;
  /** Ends the lease; claims still held are free at once. */
  leave(owner: number): Promise<void>;
  /**
   * Frees the claims of processes whose lease has ended; resolves to their number. For claims of other processes it is
   * an abnormal end. The first one counts for all that the process held, each further one only for what it had recorded
   * with `begin`. A try that ends, and a clean end, count for nothing.
   */
  rescue(): Promise<number>;
  /** Records that these claims are about to be posted. Needed only for claims that were held at an abnormal end before. */
  begin(owner: number, claims: readonly Claim[]): Promise<void>;

  claim(owner: number, requests: readonly ClaimRequest[]): Promise<ClaimResult>;
  /**
   * Verdicts over claims that this owner no longer holds are passed over. With `keeps`, delivered messages are kept, to
   * be found and sent again.
   */
  settle(owner: number, settlements: readonly Settlement[], keeps?: boolean): Promise<void>;

  /**
   * Makes dead letters of deliveries first held back or tried before `before`; resolves to their number, at most `limit`.
   * With `untriedToo` also of those that were never tried, held out ones included.
   */
  expire(destination: string, before: number, untriedToo: boolean, limit: number): Promise<number>;
  /**
   * Starts the four hours of a destination's deletion notices anew, with their next try, because nobody serves it.
   * Resolves to the number of notices that had been tried, at most `limit`.
   */
  restNotices(destination: string, limit: number): Promise<number>;
  /**
   * Makes dead letters (`destination_removed`) of up to `limit` deliveries of a destination that is gone, and drops its
   * notices of deletions. With `unknownFor`, only while it is an orphan that was counted for so long.
   */
  bury(destination: string, limit: number, unknownFor?: number): Promise<number>;
  /**
   * Queues letters again that a full queue held out, the oldest first and as they are stored, once a quarter of the
   * queue is free. Resolves to their number, at most `limit`.
   */
  requeue(destination: string, limit: number): Promise<number>;

  /** Queues dead letters again; one whose conflict key has a newer delivery pending is dropped instead. */
  replay(replays: readonly Replay[]): Promise<number>;
  drop(ids: readonly string[]): Promise<number>;
  /**
   * Queues kept messages once more, under new ids: receivers take the same id for the same message. As with `replay`,
   * one whose conflict key has a newer delivery pending is passed over, and so is one of a user who is being deleted.
   */
  deliverAgain(replays: readonly Replay[]): Promise<number>;
  /**
   * Queues letters of a destination again, as they are, that died since `from` because an endpoint refused everything.
   * Up to `limit`, in order of acceptance, from the cursor `after` on. One whose conflict key has a newer delivery is
   * dropped, and letters about users who are being deleted stay. Resolves to the next cursor; null once none is left.
   */
  resend(destination: string, from: number, after: string | null, limit: number): Promise<string | null>;

  /**
   * Takes users out of pending deliveries, dead letters, kept messages and attempts, a page at a time, from where
   * `cursor` says. Resolves to the next cursor, null once done. Only what came from `sources`, or from any when null.
   * `inFlight` counts their deliveries that are being posted right now.
   */
  erase(
    users: readonly string[],
    sources: readonly string[] | null,
    cursor: string | null,
  ): Promise<{ readonly cursor: string | null; readonly inFlight: number }>;
  /** Drops attempts made before `before`, and message ids older than the dedupe window; at most `limit` rows. */
  prune(before: number, limit: number): Promise<number>;
}
