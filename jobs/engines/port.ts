import type { Remark } from '../../src/kernel/remark.ts';

/**
 * An audience engine keeps each snapshot (membership as last synced) beside the data, computes there what
 * changed, and hands out only the changes. `test/contract/engine.ts` is the suite that every engine passes.
 */
export interface Engine {
  /** The snapshot's version and size; version 0 when there is none. */
  snapshot(key: string): Promise<Snapshot>;
  /**
   * Runs the definition once, compares it with the snapshot, and keeps the difference as a durable plan.
   * Writes all of it or nothing; the snapshot stays as it is.
   *
   * @throws RollcallError `sql_failed`, `source_incomplete`, `column_missing`, `column_type`
   */
  stage(request: StageRequest): Promise<Staged>;
  /**
   * The traits that a computed trait's definition gives; none for an audience. The definition is checked, not run.
   *
   * @throws RollcallError `sql_failed`, `column_missing`, `column_type`
   */
  describe(definition: Definition): Promise<readonly TraitColumn[]>;
  /** As `stage`, but leaves no trace: the counts and a few rows of each sort. */
  preview(request: StageRequest, sampleSize: number): Promise<Preview>;
  /** The counts of a plan staged earlier; null when there is none of that name. */
  staged(plan: string): Promise<Staged | null>;
  /**
   * At most `limit` rows of a plan after position `after` (0 for the start), in order; fewer where values are long, but none at its
   * end only.
   */
  changes(plan: string, after: number, limit: number): Promise<ChangeBatch>;
  /**
   * Moves the snapshot to the plan's version in one transaction; again is harmless. The plan stays until `discard`.
   *
   * @throws RollcallError `snapshot_moved` when the snapshot is no longer the one that the plan was computed from
   */
  commit(plan: string): Promise<void>;
  /** Removes the rows of a plan after position `after`: to be committed without them. */
  cut(plan: string, after: number): Promise<void>;
  /** Removes a plan, committed or not. */
  discard(plan: string): Promise<void>;
  /** Removes the snapshot of a key; again is harmless. */
  drop(key: string): Promise<void>;
  /** These users' values in the snapshot, once moved by `plan`; users that it never had are left out. */
  lookup(key: string, users: readonly string[], plan?: string): Promise<ReadonlyMap<string, Standing>>;
  /** The members, in no order, a batch at a time: memory stays flat. */
  members(key: string): AsyncIterable<MemberBatch>;
  /** Members after this user ('' for the first), in the order of their ids, at most `limit`; costs the same wherever it begins. */
  memberPage(key: string, after: string, limit: number): Promise<MemberBatch>;
  /** Users who entered, left or changed with the version that a run brought, in no order, as far as it is remembered. */
  runChanges(key: string, version: number): AsyncIterable<readonly RunChange[]>;
  /** Those of them after this user ('' for the first), in the order of their ids, at most `limit`. */
  runChangePage(key: string, version: number, after: string, limit: number): Promise<readonly RunChange[]>;
  /** The states of a user that are over, oldest first; those before the snapshot was dropped too. */
  history(key: string, user: string): Promise<readonly Interval[]>;
  /** The cause of each version of a user that no run brought, oldest first; of an engine that computes live. */
  causes?(key: string, user: string): Promise<readonly Cause[]>;
  /** Forgets states that ended before this time, in milliseconds since 1970: what `history` and `runChanges` remember. */
  prune(before: number): Promise<void>;
  /** Takes users out of the snapshots, plans and histories of these keys, or of every key. */
  forget(users: readonly string[], keys?: readonly string[] | null): Promise<void>;
  /**
   * Removes what deleted rows left behind in the engine's own files, as far as its database lets us. `all` tables after
   * `forget`, those of `plans` after a plan from which users were taken out.
   */
  scrub(scope: 'all' | 'plans'): Promise<void>;
  /**
   * Its version, and what would keep it from its work, for `rollcall doctor`. Writes nothing. An engine need not have it.
   *
   * @param connections - that a process takes at most
   */
  examine?(connections: number): Promise<readonly Remark[]>;
  close(): Promise<void>;
}

export type ComputedKind = 'audience' | 'trait';

/**
 * `sync`: what changed. `resync`: everything again, leavers included. `retire`: `false` to every member, who all leave.
 * For one destination, and without a change of the snapshot: `backfill`, the snapshot as it stands, and `withdraw`, `false`
 * to every member.
 */
export type Action = 'sync' | 'resync' | 'retire' | 'backfill' | 'withdraw';

export interface Snapshot {
  readonly version: number;
  readonly members: number;
}

export interface Definition {
  readonly key: string;
  readonly kind: ComputedKind;
  readonly sql: string;
  /** The value of `$now`, milliseconds since 1970. */
  readonly asOf: number;
  /** A column of the result that says how fresh it is; a trait does not send it. */
  readonly freshness?: string | undefined;
  /** Interrupts it: what is asked of the engine rejects with its reason. */
  readonly signal?: AbortSignal | undefined;
}

/** The JSON type of a column's values, null aside. `scalar`: text, numbers or booleans, never null within a list. */
type JsonType = 'string' | 'number' | 'boolean' | 'scalar' | 'unknown';

/** One of the traits that a definition gives. */
export interface TraitColumn {
  readonly key: string;
  /** Of the items, where it is a list. */
  readonly type: JsonType;
  readonly isList: boolean;
}

/** The definition's SQL is used by `sync` and `resync` only. */
export interface StageRequest extends Definition {
  /** Names the plan; letters, digits, `_` and `-` only. */
  readonly plan: string;
  readonly action: Action;
  /** The version that the snapshot gets by `commit`. */
  readonly toVersion: number;
  /** Whether a backfill or withdrawal tells those who left, too. */
  readonly leavers: boolean;
  /** When the run took its lease: older plans of this key are leftovers of crashed runs and are removed. */
  readonly leasedAt: number;
}

/** A plan's counts. */
export interface Staged {
  readonly plan: string;
  readonly key: string;
  readonly kind: ComputedKind;
  readonly action: Action;
  readonly fromVersion: number;
  readonly toVersion: number;
  /** Members before and after. */
  readonly before: number;
  readonly members: number;
  readonly entered: number;
  readonly exited: number;
  /** Members with another value than before (traits only). */
  readonly changed: number;
  /** Rows without a usable user id. */
  readonly invalid: number;
  /** Rows beyond the first of their user. */
  readonly duplicates: number;
  /** Rows of the plan: messages to send. */
  readonly total: number;
  /** The traits' keys, in order. */
  readonly columns: readonly string[];
  /**
   * The greatest value of the request's `freshness` column, in milliseconds since 1970; null where it has none. Values more than
   * 14 hours after `asOf` count only where all are.
   */
  readonly newest?: number | null;
  /** Why a person has to look at it first, whatever the counts; null where nobody has to. */
  readonly frozen?: string | null;
}

/** Rows of a plan, by column. */
export interface ChangeBatch {
  /** Position in the plan, from 1, rising. */
  readonly positions: readonly number[];
  readonly userIds: readonly string[];
  /** Whether the user is a member now. */
  readonly present: readonly boolean[];
  /** JSON text of the traits object (traits only; null for those who are gone). */
  readonly values: readonly (string | null)[];
}

export interface Preview extends Staged {
  readonly sample: ChangeBatch;
}

/** Members, by column. */
export interface MemberBatch {
  readonly userIds: readonly string[];
  /** JSON text of the traits object (traits only). */
  readonly values: readonly (string | null)[];
  /** The snapshot version that brought each. */
  readonly since: readonly number[];
}

export interface RunChange {
  readonly userId: string;
  readonly change: 'entered' | 'exited' | 'changed';
  /** JSON text of the traits object (traits only; null for those who are gone). */
  readonly value: string | null;
}

/** From one version to another a user was a member, with this value. */
export interface Interval {
  readonly value: string | null;
  readonly since: number;
  /** The version that ended it. */
  readonly until: number;
}

/** Why a user's value was sent as it was computed. */
export interface Cause {
  readonly version: number;
  /** Milliseconds since 1970. */
  readonly at: number;
  /** The event; null for what is not an event. */
  readonly event: CausingEvent | null;
  /** The audience by SQL whose sync made it; null for others. */
  readonly audience: string | null;
}

interface CausingEvent {
  readonly messageId: string;
  readonly type: string;
  /** Name of a track event. */
  readonly event: string | null;
  /** Milliseconds since 1970. */
  readonly timestamp: number;
}

/** A user in the snapshot. */
export interface Standing {
  readonly present: boolean;
  /** JSON text of the traits object (traits only). */
  readonly value: string | null;
  /** The snapshot version that brought this. */
  readonly since: number;
}
