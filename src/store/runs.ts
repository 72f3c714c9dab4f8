import type { Fence } from './fleet.ts';

/** Opening the engine, running the SQL and comparing, sending what differs, moving the snapshot. */
export type RunPhase = 'open' | 'stage' | 'send' | 'commit' | 'done';

export const RUN_STATES = ['staged', 'held', 'sending', 'committed', 'done', 'failed', 'rejected'] as const;

export type RunState = (typeof RUN_STATES)[number];

/** The counts of a run, or of one that is only planned. */
export interface RunCounts {
  readonly members: number;
  readonly entered: number;
  readonly exited: number;
  /** Members whose value changed (traits only). */
  readonly changed: number;
  /** Rows without a usable user id, and rows beyond the first of their user. */
  readonly invalid: number;
  readonly duplicates: number;
}

/** One sync of one audience or computed trait. */
export interface Run extends RunCounts {
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

/** The progress of a run's deliveries. */
export interface RunProgress {
  readonly deliveries: number;
  /** Not tried yet, or being tried for the first time. */
  readonly untried: number;
  readonly delivered: number;
  readonly dead: number;
  readonly superseded: number;
}

/** The newest run of an audience that was done. */
export interface LastSuccess {
  readonly key: string;
  readonly members: number;
  readonly at: number;
}

/** The record of an audience or computed trait. */
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
  /** Destinations that once had it and missed changes since, its end too: on their return they also hear who left. */
  readonly lapsed: readonly string[];
  /** The trait keys that members were sent, for `retire`. */
  readonly columns: readonly string[];
  /** Keys that the definition no longer gives: null in all bodies while somebody may still have values of them. */
  readonly formerColumns: readonly string[];
  /** Start of the last run of the definition, by schedule or by hand. */
  readonly lastRunAt: number | null;
  /** When it was retired; the record stays until every destination that had it knows. */
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

export interface RunFilter {
  readonly key?: string;
  readonly states?: readonly RunState[];
  readonly before?: string;
  readonly limit: number;
}

/** Audiences and computed traits, and their runs. */
export interface RunRecords {
  audience(key: string): Promise<AudienceRecord | null>;
  /** Those of these keys; all unless given. */
  audiences(keys?: readonly string[]): Promise<readonly AudienceRecord[]>;
  /** Forgets all but the sequence. */
  forgetAudience(key: string, fence: Fence): Promise<void>;
  /** Those that no schedule runs until somebody resumes them. */
  pausedAudiences(): Promise<readonly AudiencePause[]>;
  /** The first person who paused it stays named. */
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
  runs(filter: RunFilter): Promise<readonly Run[]>;
  /** Of each of these keys its newest runs, at most so many, the newest first; keys without runs are missing. */
  newestRuns(keys: readonly string[], limit: number): Promise<ReadonlyMap<string, readonly Run[]>>;
  runProgress(run: string): Promise<RunProgress>;
  /** Of each audience that is known and has had one. */
  lastSuccesses(): Promise<readonly LastSuccess[]>;
  /**
   * Drops runs begun before `runsBefore`, but those that are unfinished, undelivered or the newest of their key. Drops
   * regulations that are over and were filed before `regulationsBefore`. At most `limit` of each. With a regulation go
   * the hashes of its users, so it stays while a run is unfinished that was computed before it. Resolves to the larger
   * number.
   */
  pruneRecords(runsBefore: number, regulationsBefore: number, limit: number): Promise<number>;
}
