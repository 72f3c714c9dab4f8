import type { Concern } from '../concern.ts';
import type { DeadReason } from '../dead-reasons.ts';
import type { RollcallError } from '../errors.ts';
import type { MessageType } from '../message-types.ts';
import type { Remark } from '../remark.ts';
import type { EventLog } from './event-log.ts';
import type { Fence } from './fence.ts';
import type { HistoryEntry, HistoryFilter, HistoryPoint, HistoryStep, HistorySubject, HistorySum } from './history.ts';
import type { LiveCommit, LiveRecords } from './live.ts';

export * from './history.ts';
export type { Fence, LiveCommit };

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
  /** Who takes deliveries as they are accepted. */
  readonly take?: Take | null;
}

/**
 * Room for deliveries that are claimed as they are accepted: they are neither written nor read a second time. A store need
 * not fill it. Membership changes are never taken so, since they can be superseded until they are claimed.
 */
export interface Take {
  readonly owner: number;
  /** How many of each destination at most. */
  readonly room: ReadonlyMap<string, number>;
}

export interface AcceptResult {
  readonly accepted: number;
  readonly duplicates: number;
  /** Messages of users who are to be kept out. */
  readonly suppressed: number;
  /** What was claimed for the owner of `take`. */
  readonly claims?: readonly Claim[];
}

/** What became of an endpoint within one delivery; those not named may be tried. */
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
  /** Abnormal ends of processes that it has to do with and has not outlived by a try: see `rescue`. */
  readonly crashes: number;
}

/** Of a delivery that no endpoint has answered for good. */
export const NO_MARKS: EndpointMarks = {};

export interface ClaimRequest {
  readonly destination: string;
  readonly limit: number;
  /** What goes first: first tries in the order of the lanes, due retries (one claim in eight), or backfills (likewise). */
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

/** What is to become of a claimed delivery. */
export type Verdict =
  | { readonly kind: 'delivered' }
  /** Tried in vain; again at `dueAt`. */
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
    };

export interface Settlement {
  readonly claim: Claim;
  readonly verdict: Verdict;
  readonly attempts: readonly Attempt[];
}

export interface AttemptRecord extends Attempt {
  readonly delivery: string;
  readonly destination: string;
  readonly source: string;
  readonly type: MessageType;
  readonly userId: string | null;
  readonly messageId: string;
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

/** A page of the attempt log, newest first. */
export interface AttemptPage {
  readonly attempts: readonly AttemptRecord[];
  /** Where the next page begins; null at the end of the log. */
  readonly next: number | null;
}

/** What somebody is about to do: see the table `audit`. */
export interface NewAudit {
  readonly at: number;
  readonly who: string;
  readonly action: string;
  readonly target: string | null;
}

export interface AuditRecord extends NewAudit {
  readonly id: number;
  /** `done`, or the code of an error; null while it goes on, or where the process ended in it. */
  readonly outcome: string | null;
}

export interface AuditFilter {
  readonly who?: string;
  readonly action?: string;
  readonly since?: number;
  /** Only records older than this one. */
  readonly before?: number;
  readonly limit: number;
}

/** A notice that people got of an alert, alone or with others of its kind. */
interface AlertNotice {
  readonly id: string;
  /** When it was decided on, in the store's time. */
  readonly at: number;
  /** Whether it is on its way: accepted for delivery. */
  readonly sent: boolean;
}

/** A concern that people are told of. Its times are the store's. */
export interface Alert {
  readonly id: string;
  /** Of the same kind and subject, at most one is not closed. */
  readonly about: Concern;
  readonly firstAt: number;
  /** When it had lasted long enough; null before. */
  readonly openedAt: number | null;
  /** Since when the concern is gone; null while it does. */
  readonly goneAt: number | null;
  readonly closedAt: number | null;
  /** How often it opened again soon after it was closed. */
  readonly flaps: number;
  readonly opening: AlertNotice | null;
  readonly closing: AlertNotice | null;
  /** Closed, with nothing left to say of it. */
  readonly isOver: boolean;
}

export interface AlertFilter {
  readonly isOpen?: boolean;
  /** Only those from before this place: see `AlertPage`. */
  readonly before?: number;
  readonly limit: number;
}

/** Alerts that people were told of, the newest first. */
export interface AlertPage {
  readonly alerts: readonly Alert[];
  /** The place that the next page begins before; null after the last. */
  readonly next: number | null;
}

/** A page of dead letters. */
export interface DeadLetterPage {
  readonly letters: readonly DeadLetter[];
  /** The id that the next page begins behind; null after the last. */
  readonly next: string | null;
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

/** A dead letter sent again, with another body where the value of now differs. */
export interface Replay {
  readonly id: string;
  readonly body: string | null;
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

/** What waits, then what is dead, then what was delivered; the newest first in each. */
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

/** What the store remembers of an endpoint over restarts. */
export interface EndpointState {
  readonly endpoint: string;
  readonly destination: string;
  /** Paused by a 410 until a person resumes it. */
  readonly pausedAt: number | null;
  /** Since when it answers no probe. */
  readonly deadSince: number | null;
  /** While it refuses everything, and then until all that it refused is queued again. */
  readonly refusal?: Refusal | null;
}

/** An endpoint refuses everything, or did. */
export interface Refusal {
  /** Since when; null once it does no longer, or a person has it tried again. */
  readonly since: number | null;
  /** What it refused from here on is sent again: its last success before. */
  readonly from: number;
  /** When it took one again; null before. */
  readonly takenAt: number | null;
}

/** Why an endpoint takes nothing for now, probes aside; `open` if it does. */
export function whyClosed({ pausedAt, deadSince, refusal }: EndpointState): 'paused' | 'refusing' | 'dead' | 'open' {
  if (pausedAt !== null) return 'paused';
  if ((refusal?.since ?? null) !== null) return 'refusing';
  return deadSince !== null ? 'dead' : 'open';
}

export function isClosed(state: EndpointState): boolean {
  return whyClosed(state) !== 'open';
}

/** Whether there is nothing to remember of an endpoint. */
export function isOrdinary(state: EndpointState): boolean {
  return !isClosed(state) && !state.refusal;
}

/** As a store has it; empty for an endpoint that refused nothing. */
export function refusalOf(
  since: number | null = null,
  from: number | null = null,
  takenAt: number | null = null,
): { readonly refusal?: Refusal } {
  return from === null ? {} : { refusal: { since, from, takenAt } };
}

export interface Backlog {
  readonly destination: string;
  /** Deliveries neither delivered nor dead. */
  readonly pending: number;
  /** Dead letters, those held out included. */
  readonly dead: number;
  /** Pending deliveries that count towards `maxQueued`: not tried yet, and no deletion notices. */
  readonly queued: number;
  /** Dead letters `queue_full`. While there are any, whatever is new joins them. */
  readonly heldOut: number;
}

/** What waits longest for its first try at a destination. */
export interface OldestUntried {
  readonly destination: string;
  readonly since: number;
}

/** The newest run of an audience that was done. */
export interface LastSuccess {
  readonly key: string;
  readonly members: number;
  readonly at: number;
}

/** Opening the engine, running the SQL and comparing, sending what differs, moving the snapshot. */
export type RunPhase = 'open' | 'stage' | 'send' | 'commit' | 'done';

export const RUN_STATES = ['staged', 'held', 'sending', 'committed', 'done', 'failed', 'rejected'] as const;
export type RunState = (typeof RUN_STATES)[number];

/** One sync of one audience or computed trait. */
export interface Run {
  readonly id: string;
  readonly key: string;
  readonly kind: 'audience' | 'trait';
  /**
   * The changes, everything again, or `false` to everyone; or for one destination that is behind, the whole membership or
   * `false` to everyone.
   */
  readonly action: 'sync' | 'resync' | 'retire' | 'backfill' | 'withdraw';
  readonly state: RunState;
  /** How far it is, or came before it failed. */
  readonly phase?: RunPhase;
  readonly first: boolean;
  readonly members: number;
  readonly entered: number;
  readonly exited: number;
  /** Members whose value changed (traits only). */
  readonly changed: number;
  readonly invalid: number;
  readonly duplicates: number;
  readonly held: boolean;
  /** Why it was held, or what failed. */
  readonly reason: string | null;
  readonly code: string | null;
  /** Messages accepted so far: a `PlanStep` adds those of its batch, duplicates too. */
  readonly sent: number;
  readonly cursor: string | null;
  readonly fromVersion: number;
  readonly toVersion: number;
  readonly definitionHash: string;
  /** The only destinations to send to; null for all that the source is connected to. */
  readonly destinations: readonly string[] | null;
  /** The audience that this one was until now, which the first sync of the new name ends. */
  readonly renamedFrom?: string;
  readonly asOf: number;
  /** Deletions up to this epoch were over when it was begun; users of later ones are left out of what it computed. */
  readonly epoch: number;
  readonly startedAt: number;
  readonly finishedAt: number | null;
  /** Milliseconds that it was held until a person approved it. */
  readonly waited?: number;
  /** Of a run that failed: when the first of the failures in a row began. */
  readonly failingSince?: number;
}

/** How far the deliveries of a run are. */
export interface RunProgress {
  readonly deliveries: number;
  /** Not tried yet, or being tried for the first time. */
  readonly untried: number;
  readonly delivered: number;
  readonly dead: number;
  readonly superseded: number;
}

/** What the store remembers of an audience or computed trait. */
export interface AudienceRecord {
  readonly key: string;
  readonly kind: 'audience' | 'trait';
  /** Name of the engine that holds the snapshot: an audience gone from the configuration can still be retired. */
  readonly engine: string;
  /** The source that its messages speak as. */
  readonly source: string;
  /** The snapshot's version after the last committed run; 0 before the first. */
  readonly version: number;
  /** Rises with every change that is sent. */
  readonly sequence: number;
  readonly definitionHash: string;
  /** Destinations that have the whole membership. */
  readonly destinations: readonly string[];
  /** Destinations that once had it and missed changes since, its end too: on their return they are told the leavers too. */
  readonly lapsed: readonly string[];
  /** The trait keys that members were told, for `retire`. */
  readonly columns: readonly string[];
  /** Keys that the definition no longer gives: null in all bodies while somebody may still have values of them. */
  readonly formerColumns: readonly string[];
  /** Start of the last run of the definition, by schedule or by hand. */
  readonly lastRunAt: number | null;
  /** When it was retired; the record stays until everybody who was told of it knows. */
  readonly endedAt: number | null;
}

/** An audience that a person paused. */
export interface AudiencePause {
  readonly key: string;
  readonly at: number;
  /** As the audit log names them. */
  readonly by: string;
}

/** A process that wants to run an audience. */
export interface Candidate {
  readonly key: string;
  /** Hash of the configuration that the process goes by. */
  readonly configuration: string;
  /** Hash of what that configuration says of this audience. */
  readonly definition: string;
}

/**
 * It may run an audience unless a newer configuration ran it last, with another definition. A configuration without a
 * generation is older than all.
 */
export interface Admission {
  readonly admitted: boolean;
  /** Of the process's configuration. */
  readonly generation: number;
  /** Of the configuration that ran it last; 0 before the first. */
  readonly lastGeneration: number;
}

export const REGULATION_TYPES = ['DELETE_ONLY', 'SUPPRESS_WITH_DELETE', 'SUPPRESS_ONLY', 'UNSUPPRESS'] as const;
export type RegulationType = (typeof REGULATION_TYPES)[number];
export type RegulationStatus = 'INITIALIZED' | 'RUNNING' | 'FINISHED' | 'FAILED' | 'PARTIAL_SUCCESS';

/** Whether requests of this type take their users out. */
export const deletes = (type: RegulationType): boolean => type === 'DELETE_ONLY' || type === 'SUPPRESS_WITH_DELETE';

/** Whether nothing more is done about a request. */
export const isOver = (status: RegulationStatus): boolean => status !== 'INITIALIZED' && status !== 'RUNNING';

/** That a destination took a notice of a deletion. */
export interface NoticeConfirmation {
  /** The request's id. */
  readonly regulation: string;
  readonly destination: string;
  /** Which of the request's notices. */
  readonly notice: string;
  readonly at: number;
}

/** What a destination took of a request's notices. */
export interface Confirmed {
  readonly regulation: string;
  readonly destination: string;
  readonly notices: number;
  /** When it took the last of them. */
  readonly at: number;
}

/** A deletion request and what became of it. */
export interface Regulation {
  readonly id: string;
  readonly type: RegulationType;
  readonly status: RegulationStatus;
  /** Null for every source. */
  readonly sources: readonly string[] | null;
  /** Empty once nothing more needs them: then only `hashes` are kept. */
  readonly userIds: readonly string[];
  /** Number of users. */
  readonly subjects: number;
  /** Keyed hashes of the ids, made by the store when the ids are dropped. */
  readonly hashes: readonly string[];
  /** Who was told of which users (places in `userIds`), found before the users were taken out; null before that. */
  readonly told: readonly Told[] | null;
  /** Whether something could not be taken out. */
  readonly partial: boolean;
  /** Who filed it, as the audit log names them. */
  readonly by?: string;
  /** How many notices each destination gets; absent before they were accepted. */
  readonly notices?: Readonly<Record<string, number>>;
  readonly createdAt: number;
  readonly finishedAt: number | null;
}

/**
 * The time that due times and the four hours are in, in milliseconds. It goes on evenly when a clock is set: on Postgres with
 * the database's clock, on SQLite with the wall clock plus an offset. Claims, verdicts and states of endpoints are in it;
 * attempts, dead letters and runs are in the wall clock's, as they are shown.
 */
export interface StoreTime {
  now(): number;
  /** The same moment by the wall clock, as it is set now. */
  toWall(time: number): number;
}

/** A destination that a source told of users. */
export interface Told {
  readonly source: string;
  readonly destination: string;
  readonly users: readonly number[];
}

/** Where deletions stand. Each request that deletes raises the epoch once, before it takes anything out. */
export interface Deletions {
  readonly epoch: number;
  /** Requests up to this epoch are over. */
  readonly settled: number;
  /** Whether any request raised the epoch beyond the one asked for. */
  readonly some: boolean;
}

/** Between two processes that deliver, no more than a restart, in milliseconds. */
export const SERVED_GAP = 60_000;

/** A process that delivers. */
export interface Owner {
  readonly id: number;
  /** Id of the roster that it published; null until it has. */
  readonly roster: string | null;
}

/** What a process knows of destinations. Processes of one configuration share one roster. */
export interface Roster {
  readonly destinations: readonly RosterEntry[];
  /** Its `delivery.removedAfter`, in milliseconds. */
  readonly removedAfter: number;
}

export interface RosterEntry {
  readonly name: string;
  /** A disabled destination is known, and not served. */
  readonly enabled: boolean;
  readonly sources: readonly string[];
}

/** A destination with pending deliveries that no live process knows. */
export interface Orphan {
  readonly destination: string;
  readonly pending: number;
  /** When it was first seen so; null before. */
  readonly since: number | null;
  /** How long processes have delivered without knowing it, in milliseconds. */
  readonly unknownFor: number;
}

/** What a store says unasked. */
export interface StoreEvents {
  /** It has failed for good: every verb fails from now on, until a new process opens it. */
  onFatal(error: RollcallError): void;
  /** What it holds can't be trusted any more (`store_damaged`): it takes nothing new until it is put right and opened again. */
  onDamaged(error: RollcallError): void;
}

/** For those who learn of it by the verbs that fail. */
export const NO_EVENTS: StoreEvents = { onFatal() {}, onDamaged() {} };

/** A part of what `told` finds; `users` are ids. */
export interface ToldPart {
  readonly cursor: string | null;
  readonly told: readonly { readonly source: string; readonly destination: string; readonly user: string }[];
}

/** Deliveries on their way: what takes them in, hands them to processes, and takes them out again. */
export interface Queue {
  /** Writes a batch or nothing. What is beyond a destination's limit becomes a dead letter `queue_full`. */
  accept(request: AcceptRequest): Promise<AcceptResult>;

  /** Joins the processes that deliver, for `ttl` milliseconds; the returned owner names this process in this store. */
  join(ttl: number): Promise<number>;
  /** Extends the lease; false when it had ended and the claims were given to others. */
  heartbeat(owner: number, ttl: number): Promise<boolean>;
  /**
   * Since when some process has been delivering, without a gap of more than a minute: in a gap nobody can have known whether
   * an endpoint answers. What looks like a gap may be a step of the clock.
   */
  servedSince(): Promise<number>;
  /** Ends the lease; claims still held are free at once. */
  leave(owner: number): Promise<void>;
  /**
   * Frees the claims of processes whose lease has ended; resolves to their number. For the claims of others than this one
   * it is an abnormal end: the first counts for all that the process held, each more only for what it had recorded with
   * `begin`. A try that ends, and a clean end, count for nothing.
   */
  rescue(): Promise<number>;
  /** Records that these claims are about to be posted. Only of use for those that were held at an abnormal end before. */
  begin(owner: number, claims: readonly Claim[]): Promise<void>;

  claim(owner: number, requests: readonly ClaimRequest[]): Promise<ClaimResult>;
  /**
   * Verdicts over claims that this owner no longer holds are passed over. With `keeps`, what was delivered is kept, to be found
   * and sent again.
   */
  settle(owner: number, settlements: readonly Settlement[], keeps?: boolean): Promise<void>;

  /**
   * Makes dead letters of deliveries first held back or tried before `before`; resolves to their number, at most `limit`.
   * With `untriedToo` also of those that were never tried, held out ones included.
   */
  expire(destination: string, before: number, untriedToo: boolean, limit: number): Promise<number>;
  /**
   * Has the four hours of a destination's notices of deletions begin anew with their next try, since nobody serves it;
   * resolves to the number of those that were tried, at most `limit`.
   */
  restNotices(destination: string, limit: number): Promise<number>;
  /**
   * Makes dead letters (`destination_removed`) of up to `limit` deliveries of a destination that is gone, and drops its
   * notices of deletions; with `unknownFor` only while it is an orphan that was counted for so long.
   */
  bury(destination: string, limit: number, unknownFor?: number): Promise<number>;
  /**
   * Queues letters again that a full queue held out, the oldest first and as they are stored, once a quarter of the queue
   * is free; resolves to their number, at most `limit`.
   */
  requeue(destination: string, limit: number): Promise<number>;

  /** Queues dead letters again; one whose conflict key has a newer delivery pending is dropped instead. */
  replay(replays: readonly Replay[]): Promise<number>;
  drop(ids: readonly string[]): Promise<number>;
  /**
   * Queues what was delivered and kept once more, under new ids: receivers take the same id for the same message. As with
   * `replay`, one whose conflict key has a newer delivery pending is passed over, and so is one of a user who is being deleted.
   */
  deliverAgain(replays: readonly Replay[]): Promise<number>;
  /**
   * Queues letters of a destination again, as they are, that died since `from` and that an endpoint refused which refused everything:
   * up to `limit`, in order of acceptance, from the cursor `after` on. One whose conflict key has a newer delivery is dropped, and letters about users who
   * are being deleted stay. Resolves to the next cursor; null once none is left.
   */
  resend(destination: string, from: number, after: string | null, limit: number): Promise<string | null>;

  /**
   * Takes users out of pending deliveries, dead letters, what is kept of delivered ones and attempts, a part at a time, from where `cursor` says;
   * resolves to the next cursor, null once done. Only what came from `sources`, or from any when null. `inFlight` counts their deliveries that are being posted right now.
   */
  erase(
    users: readonly string[],
    sources: readonly string[] | null,
    cursor: string | null,
  ): Promise<{ readonly cursor: string | null; readonly inFlight: number }>;
  /** Drops attempts made before `before`, and message ids older than the dedupe window; at most `limit` rows. */
  prune(before: number, limit: number): Promise<number>;
}

/** What is known beside the queue, one small record at a time. */
export interface Records extends LiveRecords {
  /** Takes a lease for `ttl` ms; null while another holds it. The fence's token rises with every taking. */
  takeLease(lease: string, ttl: number): Promise<Fence | null>;
  renewLease(fence: Fence, ttl: number): Promise<boolean>;
  releaseLease(fence: Fence): Promise<void>;

  audience(key: string): Promise<AudienceRecord | null>;
  audiences(): Promise<readonly AudienceRecord[]>;
  /** Forgets all but the sequence. */
  forgetAudience(key: string, fence: Fence): Promise<void>;
  /** Those that no schedule runs until somebody resumes them. */
  pausedAudiences(): Promise<readonly AudiencePause[]>;
  /** Whoever paused it first stays named. */
  pauseAudience(pause: AudiencePause): Promise<void>;
  resumeAudience(key: string): Promise<void>;
  /** The sequence of an audience when it was forgotten; 0 if it never was. */
  lastSequence(key: string): Promise<number>;
  /**
   * The generation of a configuration with this hash, from now on the newest: it keeps its generation if it has the
   * newest already, and gets the next one otherwise.
   */
  takeGeneration(hash: string): Promise<number>;
  /** Whether a process may run an audience; with a fence, the audience records that it does. Throws `fence_lost`. */
  admit(candidate: Candidate, fence: Fence | null): Promise<Admission>;

  /** Records a run, new or changed, and with it what is known of its audience. Throws `fence_lost`. */
  saveRun(run: Run, fence: Fence, audience?: AudienceRecord): Promise<void>;
  run(id: string): Promise<Run | null>;
  /** The newest first, by start; with `before` only those older than that run. */
  runs(filter: {
    readonly key?: string;
    readonly states?: readonly RunState[];
    readonly before?: string;
    readonly limit: number;
  }): Promise<readonly Run[]>;
  runProgress(run: string): Promise<RunProgress>;
  /** Of each audience that is known and has had one. */
  lastSuccesses(): Promise<readonly LastSuccess[]>;

  /**
   * Records a request. A request that deletes raises the deletion epoch in the transaction that first records it as
   * `RUNNING`. Once it is over, only keyed hashes of its users are kept.
   */
  saveRegulation(regulation: Regulation): Promise<void>;
  /** Drops a request's user ids; keyed hashes of them are kept, and how many notices each destination gets. */
  stripRegulation(id: string, notices?: Regulation['notices']): Promise<void>;
  regulation(id: string): Promise<Regulation | null>;
  /** Regulations neither finished nor failed, oldest first. */
  openRegulations(): Promise<readonly Regulation[]>;
  /** Newest first; with `before` (an id) only older ones. */
  regulations(filter: { readonly before?: string; readonly limit: number }): Promise<readonly Regulation[]>;
  /** One that is known already changes nothing. */
  confirmNotices(confirmations: readonly NoticeConfirmation[]): Promise<void>;
  confirmed(regulations: readonly string[]): Promise<readonly Confirmed[]>;
  /** Where deletions stand, seen from an epoch; from the newest when null. */
  deletions(since: number | null): Promise<Deletions>;
  /** Those of `users` who are suppressed for a source, or whose deletion raised the epoch beyond `since`. */
  excluded(users: readonly string[], source: string, since: number): Promise<readonly string[]>;
  /**
   * Who was told of these users, as far as attempts, kept messages, dead letters and what waits for a retry reach; a part at a
   * time, as `erase`.
   */
  told(users: readonly string[], sources: readonly string[] | null, cursor: string | null): Promise<ToldPart>;
  /** Has `accept` pass over these users' messages from now on (or no longer); only keyed hashes of their ids are kept. */
  suppress(users: readonly string[], sources: readonly string[] | null, on: boolean): Promise<void>;
  /** A key of this store for hashes that stand in for user ids. */
  hashKey(): Promise<string>;

  /** The owners whose leases live. */
  owners(): Promise<readonly Owner[]>;
  /** Publishes what a process knows from now on. The time of orphans among it starts anew. */
  publish(owner: number, roster: Roster): Promise<void>;
  /** Rosters by id; those that are gone are missing. */
  rosters(ids: readonly string[]): Promise<ReadonlyMap<string, Roster>>;
  /** The destinations with pending deliveries that no live process knows. */
  orphans(): Promise<readonly Orphan[]>;
  /**
   * As `orphans`, and adds `elapsed` milliseconds to those that were so at the last count. Counts nothing while a live
   * process has not published. Throws `fence_lost`.
   */
  countOrphans(fence: Fence, elapsed: number): Promise<readonly Orphan[]>;

  /** One row per destination that was ever delivered to. */
  backlog(): Promise<readonly Backlog[]>;
  /** Of each destination for which something waits for its first try. */
  oldestUntried(): Promise<readonly OldestUntried[]>;
  endpoints(): Promise<readonly EndpointState[]>;
  markEndpoint(state: EndpointState): Promise<void>;

  attempts(filter: AttemptFilter): Promise<readonly AttemptRecord[]>;
  /** As `attempts`, from a place of the log on. It looks at a bounded part of the log, so that a page may be short. */
  attemptPage(filter: AttemptFilter, from: number | null): Promise<AttemptPage>;
  /** Goes on from `cursor`. It looks at a bounded part of what there is, so that a page may be short. */
  messagePage(filter: MessageFilter, cursor: string | null): Promise<MessagePage>;
  /** By the delivery's id; null where its body is not there. */
  message(id: string): Promise<KeptMessage | null>;
  /** Drops what was delivered before `before`; at most `limit`. */
  pruneDelivered(before: number, limit: number): Promise<number>;
  /** Adds samples, in the order of time; of each source the newest 200 are kept. */
  saveDiscards(discards: readonly Discard[]): Promise<void>;
  /** The newest first. */
  discards(filter: DiscardFilter): Promise<readonly Discard[]>;
  /** Drops the samples that name one of these users, of these sources or of any when null. */
  forgetDiscards(users: readonly string[], sources: readonly string[] | null): Promise<void>;
  deadLetters(filter: DeadLetterFilter): Promise<readonly DeadLetter[]>;
  /** As `deadLetters`, newest ids first where asked for. It looks at a bounded part of them, so that a page may be short. */
  deadLetterPage(filter: DeadLetterFilter, newestFirst: boolean): Promise<DeadLetterPage>;

  /** Adds to the minute, the hour and the day that `at` is in, by the wall clock. */
  addHistory(at: number, entries: readonly HistoryEntry[]): Promise<void>;
  /** In the order of time; steps in which nothing came to pass are missing. */
  history(filter: HistoryFilter): Promise<readonly HistoryPoint[]>;
  /** Of each subject of a kind the sums over the steps from `since` on; those to which nothing came to pass are missing. */
  historySums(subject: HistorySubject, step: HistoryStep, since: number): Promise<readonly HistorySum[]>;
  /** Drops what is older than it is kept; at most `limit` rows. */
  pruneHistory(now: number, limit: number): Promise<number>;

  /** Writes down what somebody is about to do; resolves to the id of the record. */
  beginAudit(deed: NewAudit): Promise<number>;
  endAudit(id: number, outcome: string): Promise<void>;
  /** The newest first. */
  audits(filter: AuditFilter): Promise<readonly AuditRecord[]>;
  /** Drops records made before `before`; at most `limit`. */
  pruneAudits(before: number, limit: number): Promise<number>;

  /** The alerts that are not over, and those closed since then. */
  currentAlerts(closedSince: number): Promise<readonly Alert[]>;
  /** Records alerts, new or changed, and forgets those of `gone` (ids). Throws `fence_lost`. */
  saveAlerts(alerts: readonly Alert[], gone: readonly string[], fence: Fence): Promise<void>;
  /** Those that were opened. */
  alerts(filter: AlertFilter): Promise<AlertPage>;
  /** Drops alerts that were over before `before`; at most `limit`. */
  pruneAlerts(before: number, limit: number): Promise<number>;

  /**
   * Drops runs begun before `runsBefore`, but those that are unfinished, undelivered or the newest of their key, and
   * regulations that are over and were filed before `regulationsBefore`; at most `limit` of each. With a regulation go the
   * hashes of its users, so it stays while a run is unfinished that was computed before it. Resolves to the larger number.
   */
  pruneRecords(runsBefore: number, regulationsBefore: number, limit: number): Promise<number>;
}

/**
 * Durable memory of the service. Every verb that writes resolves only once the change is on disk.
 * Failures are `RollcallError`s: `store_full`, `store_busy`, `store_failed`, `fence_lost`.
 */
export interface Store extends Queue, Records {
  readonly time: StoreTime;
  /** What is kept of the messages that are accepted as `logged`. */
  readonly events: EventLog;
  /** Deliveries that wait for their first try, per destination at most; deletion notices are not counted. */
  readonly maxQueued: number;

  /**
   * Removes what erased rows left behind in the database's own files, as far as the database lets us.
   *
   * @throws RollcallError `store_busy` while others keep it from that
   */
  scrub(): Promise<void>;
  /** Resolves when the store answers, and is sound as far as it knows; throws otherwise. */
  ping(): Promise<void>;
  /** The database's version, and what keeps it from its work; writes nothing. */
  examine(): Promise<readonly Remark[]>;
  /** Milliseconds that this machine's wall clock is ahead of the database's; null where that has no clock of its own. */
  clockAhead(): Promise<number | null>;
  /**
   * Looks whether what is stored is damaged, in the background; resolves to what is wrong, null if nothing is. `thorough`
   * takes as long as it needs, while without it a database that is too large is passed over.
   */
  check(thorough: boolean): Promise<string | null>;
  /** Lets what was begun finish, then closes. */
  close(): Promise<void>;
}
