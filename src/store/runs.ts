import type { ChangeReason, ReasonCounts } from '../membership-change.ts';
import type { Fence } from './fleet.ts';

/** Open the engine; run the SQL and compare; send the differences; move the snapshot. */
export type RunPhase = 'open' | 'stage' | 'send' | 'commit' | 'done';

export const RUN_STATES = ['staged', 'held', 'sending', 'committed', 'done', 'failed', 'rejected'] as const;

export type RunState = (typeof RUN_STATES)[number];

/** Counts of a run, real or planned. */
export interface RunCounts {
  readonly members: number;
  readonly entered: number;
  readonly exited: number;
  /** Members with another value than before, or other columns that are sent. */
  readonly changed: number;
  /** Rows without a usable user id, and repeated rows of a user. */
  readonly invalid: number;
  readonly duplicates: number;
}

/** One sync of one audience or computed trait. */
export interface Run extends RunCounts {
  readonly id: string;
  readonly key: string;
  readonly kind: 'audience' | 'trait';
  /**
   * Sends changes, everything again, or `false` to everyone; or, to one destination that is behind, the whole
   * membership or `false` to everyone.
   */
  readonly action: 'sync' | 'resync' | 'retire' | 'backfill' | 'withdraw';
  readonly state: RunState;
  /** The current phase, or the one in which it failed. */
  readonly phase?: RunPhase;
  readonly first: boolean;
  readonly held: boolean;
  /** Reason for the hold or failure. */
  readonly reason: string | null;
  readonly code: string | null;
  /** Messages accepted so far: each `PlanStep` adds its batch, including duplicates. */
  readonly sent: number;
  readonly cursor: string | null;
  readonly fromVersion: number;
  readonly toVersion: number;
  readonly definitionHash: string;
  /** Hash of what the definition says, without names; a run with another one than the last makes its changes. */
  readonly contentHash?: string | undefined;
  /** True if the last committed run had another definition. */
  readonly isEdited?: boolean;
  /** The reason of all changes; null if each has its own. `resync` is only of those who have not changed. */
  readonly changeReason?: ChangeReason | null;
  /** Numbers of planned changes, by reason. */
  readonly reasons?: ReasonCounts;
  /** Only these destinations; null for all that are connected to the source. */
  readonly destinations: readonly string[] | null;
  /** Those of `destinations` that count as told, although they get none of it (`backfill: skip`). */
  readonly skipped?: readonly string[];
  /** The new key, if it ends a renamed audience. */
  readonly renamedTo?: string;
  /** Former key of a renamed audience, which the first sync under the new name ends. */
  readonly renamedFrom?: string;
  readonly asOf: number;
  /** Deletions up to this epoch were complete at the start; users deleted later are excluded from its result. */
  readonly epoch: number;
  readonly startedAt: number;
  /** The time at which the process got the lease. The engine keeps it as the time of the changes. */
  readonly leasedAt?: number;
  readonly finishedAt: number | null;
  /** Milliseconds on hold until a person approved it. */
  readonly waited?: number;
  /** For a failed run: start of the first of consecutive failures. */
  readonly failingSince?: number;
}

export interface RunProgress {
  readonly deliveries: number;
  /** Not tried yet, or in their first try. */
  readonly untried: number;
  readonly delivered: number;
  readonly dead: number;
  readonly superseded: number;
}

/** An audience's newest `done` run. */
export interface LastSuccess {
  readonly key: string;
  readonly members: number;
  readonly at: number;
}

/** The membership that a destination has, although it missed changes. */
export interface KnownMembership {
  readonly destination: string;
  /** The last version of which it has everything. */
  readonly version: number;
  /** It may have parts of versions up to this one. */
  readonly upTo: number;
  /** The changes that it lacks were computed at this time or later. */
  readonly at: number;
}

/** Record of an audience or computed trait. */
export interface AudienceRecord {
  readonly key: string;
  readonly kind: 'audience' | 'trait';
  /** Engine that holds the snapshot, so that an audience removed from the configuration can still be retired. */
  readonly engine: string;
  /** Engine that its SQL ran in, if that is only read. */
  readonly reads?: string | undefined;
  /** The source its messages are sent as. */
  readonly source: string;
  /** Snapshot version after the last committed run; 0 before the first. */
  readonly version: number;
  /** Incremented with every change that is sent. */
  readonly sequence: number;
  readonly definitionHash: string;
  /** As that of the run. */
  readonly contentHash?: string | undefined;
  /** Destinations that have the whole membership. */
  readonly destinations: readonly string[];
  /** Destinations that had it once and missed changes, possibly its end: on return they also get the exits. */
  readonly lapsed: readonly string[];
  /** The membership that those have, as far as it is known; on return they get the difference. */
  readonly known?: readonly KnownMembership[];
  /** Trait keys sent to members, for `retire`. */
  readonly columns: readonly string[];
  /** Keys removed from the definition: null in all bodies while somebody may still have their values. */
  readonly formerColumns: readonly string[];
  /** Start of the last run of the definition, by schedule or by hand. */
  readonly lastRunAt: number | null;
  /** Retirement time; the record stays until every destination that had it has been notified. */
  readonly endedAt: number | null;
  /** The new key, if it ended because it was renamed. */
  readonly renamedTo?: string | undefined;
}

export interface AudiencePause {
  readonly key: string;
  readonly at: number;
  /** Name as in the audit log. */
  readonly by: string;
}

/** A process that wants to run an audience. */
export interface Candidate {
  readonly key: string;
  /** Hash of the process's configuration. */
  readonly configuration: string;
  /** Hash of this audience's definition in it. */
  readonly definition: string;
}

/**
 * Decides if a process may run an audience: yes, unless a newer configuration ran it last with another definition. A
 * configuration without a generation is older than all.
 */
export interface Admission {
  readonly admitted: boolean;
  /** Generation of the process's configuration. */
  readonly generation: number;
  /** Generation of the configuration that ran it last; 0 before the first. */
  readonly lastGeneration: number;
}

export interface RunFilter {
  readonly key?: string;
  readonly states?: readonly RunState[];
  readonly before?: string;
  /** Only those that made this version. */
  readonly toVersion?: number;
  readonly limit: number;
}

export interface RunRecords {
  audience(key: string): Promise<AudienceRecord | null>;
  audiences(keys?: readonly string[]): Promise<readonly AudienceRecord[]>;
  /** Forgets everything but the sequence. */
  forgetAudience(key: string, fence: Fence): Promise<void>;
  /** Audiences paused for the schedule until somebody resumes them. */
  pausedAudiences(): Promise<readonly AudiencePause[]>;
  /** Pauses an audience; if it is paused already, the first person's name stays. */
  pauseAudience(pause: AudiencePause): Promise<void>;
  resumeAudience(key: string): Promise<void>;
  /** Sequence of an audience when it was forgotten; 0 if it never was. */
  lastSequence(key: string): Promise<number>;
  /**
   * Makes the configuration with this hash the newest: it keeps its generation if that is the newest already, and
   * otherwise gets the next one.
   */
  takeGeneration(hash: string): Promise<number>;
  /** Decides if a process may run an audience; with a fence, records that it does. Throws `fence_lost`. */
  admit(candidate: Candidate, fence: Fence | null): Promise<Admission>;
  /** Saves where an audience's snapshot is. Throws `fence_lost`. */
  moveAudience(record: AudienceRecord, fence: Fence): Promise<void>;
  /** Saves a new or changed run, and its audience's record. Throws `fence_lost`. */
  saveRun(run: Run, fence: Fence, audience?: AudienceRecord): Promise<void>;
  run(id: string): Promise<Run | null>;
  /** Newest first, by start; with `before`, only runs older than that one. */
  runs(filter: RunFilter): Promise<readonly Run[]>;
  /** The newest runs of each key, at most `limit`, newest first; keys without runs are missing. */
  newestRuns(keys: readonly string[], limit: number): Promise<ReadonlyMap<string, readonly Run[]>>;
  /** The time from which on past membership is known; 0 if nothing was removed yet. */
  historySince(): Promise<number>;
  /** Notes that membership that ended before this time is being removed from the engines. */
  forgetHistory(before: number): Promise<void>;
  runProgress(run: string): Promise<RunProgress>;
  lastSuccesses(): Promise<readonly LastSuccess[]>;
  /**
   * Drops runs begun before `runsBefore`, except those that are unfinished, undelivered or the newest of their key.
   * Drops finished regulations filed before `regulationsBefore`. At most `limit` of each. A regulation takes its user
   * hashes with it, so it stays while a run computed before it is unfinished. Resolves to the larger number.
   */
  pruneRecords(runsBefore: number, regulationsBefore: number, limit: number): Promise<number>;
}
