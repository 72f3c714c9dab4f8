import type { Remark } from '../../src/kernel/remark.ts';
import type { ChangeExplanation, ReasonCounts } from '../../src/membership-change.ts';
import type { RunCounts } from '../../src/store/runs.ts';

/**
 * An audience engine keeps each snapshot (membership as last synced) next to the data, computes the changes there,
 * and hands out only those. `test/contract/engine.ts` is the suite that every engine passes.
 */
export interface Engine {
  /** The snapshot's version and size; version 0 if there is none. */
  snapshot(key: string): Promise<Snapshot>;
  /**
   * Runs the definition once, compares it with the snapshot, and keeps the difference as a durable plan.
   * Writes all of it or nothing. The snapshot doesn't change.
   *
   * @throws RollcallError `sql_failed`, `source_incomplete`, `column_missing`, `column_repeated`, `column_type`
   */
  stage(request: StageRequest): Promise<Staged>;
  /**
   * The traits that a computed trait's definition gives, or the columns that go with an audience's changes. The
   * definition is checked, not run.
   *
   * @throws RollcallError `sql_failed`, `column_missing`, `column_repeated`, `column_type`
   */
  describe(definition: Definition): Promise<readonly TraitColumn[]>;
  /** As `stage`, but leaves no trace. Resolves to the counts and a few rows of each kind. */
  preview(request: StageRequest, sampleSize: number): Promise<Preview>;
  /** The counts of a plan staged earlier; null if there is none of that name. */
  staged(plan: string): Promise<Staged | null>;
  /**
   * At most `limit` rows of a plan after position `after` (0 for the start), in order. Fewer if values are long, but
   * none only at its end.
   */
  changes(plan: string, after: number, limit: number): Promise<ChangeBatch>;
  /**
   * Moves the snapshot to the plan's version in one transaction. Idempotent. The plan stays until `discard`.
   *
   * @throws RollcallError `snapshot_moved` if the plan was computed from another snapshot
   */
  commit(plan: string): Promise<void>;
  /** Removes the rows of a plan after position `after`, so that it is committed without them. */
  cut(plan: string, after: number): Promise<void>;
  /** Removes a plan, committed or not. */
  discard(plan: string): Promise<void>;
  /** Removes the snapshot of a key. Idempotent. */
  drop(key: string): Promise<void>;
  /** These users' values in the snapshot, after `plan` if one is given. Users that it never had are left out. */
  lookup(key: string, users: readonly string[], plan?: string): Promise<ReadonlyMap<string, Standing>>;
  /** The members, unordered, in batches, so that memory stays flat. */
  members(key: string): AsyncIterable<MemberBatch>;
  /** At most `limit` members after this user ('' for the first), ordered by id. All pages cost the same. */
  memberPage(key: string, after: string, limit: number): Promise<MemberBatch>;
  /** Users who entered, left or changed with the version of a run, unordered, as far as history reaches. */
  runChanges(key: string, version: number): AsyncIterable<readonly RunChange[]>;
  /** At most `limit` of them after this user ('' for the first), ordered by id. */
  runChangePage(key: string, version: number, after: string, limit: number): Promise<readonly RunChange[]>;
  /** The past states of a user, oldest first, including those before the snapshot was dropped. */
  history(key: string, user: string): Promise<readonly Interval[]>;
  /** One user in many snapshots at once. Without it, each is asked for its own. */
  everywhere?(keys: readonly string[], user: string): Promise<ReadonlyMap<string, UserInSnapshot>>;
  /** The causes of a user's changes, oldest first. Only an engine that computes live has them. */
  causes?(key: string, user: string): Promise<readonly Cause[]>;
  /** Forgets states of `history` and `runChanges` that ended before this time, in milliseconds since 1970. */
  prune(before: number): Promise<void>;
  /** Removes users from the snapshots, plans and histories of these keys, or of every key. */
  forget(users: readonly string[], keys?: readonly string[] | null): Promise<void>;
  /**
   * Removes what deleted rows left behind in the engine's own files, as far as its database allows: of `all` tables
   * after `forget`, of `plans` after users were removed from a plan.
   */
  scrub(scope: 'all' | 'plans'): Promise<void>;
  /**
   * Returns the version, and problems that would keep it from working, for `rollcall doctor`. Writes nothing. Optional.
   *
   * @param connections - the most that a process opens
   */
  examine?(connections: number): Promise<readonly Remark[]>;
  /** The store that owns the snapshots. Without it, stores that share an engine are not told apart. */
  readonly ownership?: Ownership;
  /** Reads all that is kept of a key, for another engine. Engines that can have the snapshots of others have these verbs. */
  readForMove?(key: string): Promise<MovableSnapshot>;
  /** Puts that in place of what it has of the key, in one transaction. */
  writeMoved?(key: string, moved: MovableSnapshot): Promise<void>;
  /** Removes snapshot, plans and history of a key. */
  removeMoved?(key: string): Promise<void>;
  close(): Promise<void>;
}

interface Ownership {
  /** The id of the store that the snapshots belong to; null if none has claimed them. */
  store(): Promise<string | null>;
  /** The versions of all snapshots, by key. */
  versions(): Promise<ReadonlyMap<string, number>>;
  /** Gives the snapshots to a store, unless they no longer belong to `from`. */
  give(store: string, from: string | null): Promise<void>;
}

/** Rows of a table of a key, by column, as texts; null is an empty one. */
interface SnapshotPart {
  readonly part: 'members' | 'leavers' | 'history';
  readonly columns: readonly (readonly string[])[];
}

/** All that an engine keeps of a key. */
export interface MovableSnapshot extends Snapshot {
  readonly parts: AsyncIterable<SnapshotPart>;
}

/** Receivers would reject longer JSON text of a value. */
export const LONGEST_VALUE = 250_000;

export type ComputedKind = 'audience' | 'trait';

/**
 * `sync`: the changes. `resync`: everything again, including leavers. `retire`: `false` for every member; all leave.
 * For one destination, without changing the snapshot: `backfill`, the snapshot as it stands, and `withdraw`, `false`
 * for every member.
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
  /** A column of the result that shows how fresh it is. Traits don't send it. */
  readonly freshness?: string | undefined;
  /** True if ids that mean nobody may be members; such rows are invalid otherwise. */
  readonly allowPlaceholders?: boolean | undefined;
  /** Columns that go with the changes of an audience. */
  readonly with?: ColumnsOf | undefined;
  /** Interrupts the engine's work, which then rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

export interface ColumnsOf {
  readonly names: readonly string[];
  /** True if a sync also sends members whose columns alone have changed. */
  readonly areSent: boolean;
}

/** The JSON type of a column's non-null values. `scalar`: text, numbers or booleans, never null within a list. */
type JsonType = 'string' | 'number' | 'boolean' | 'scalar' | 'unknown';

/** One of the traits that a definition gives. */
export interface TraitColumn {
  readonly key: string;
  /** The type of the items if it is a list. */
  readonly type: JsonType;
  readonly isList: boolean;
  /** True for a column of an audience that its definition does not name, of which nothing else is said. */
  readonly isUnnamed?: true;
}

/** A short definition, taken apart to count the people that each condition passes. */
export interface Funnel {
  /** A query for people. */
  readonly people: string;
  /** The definition, over a table of them. */
  readonly sql: string;
  /** Conditions for the rows of that table. */
  readonly counts: readonly string[];
  /** A query for what shows how each person of a preview's sample, a table of ids, passes the conditions. */
  readonly evidence?: string;
}

/** The members of an audience or trait, to compare a preview with. */
export interface Comparison {
  readonly key: string;
  /** Passes the members in batches; null if the engine has their snapshot. */
  readonly members: ((each: (batch: MemberBatch) => Promise<void>) => Promise<void>) | null;
  /** The most ids that it returns of those who enter, leave or change. */
  readonly sampleSize: number;
}

/** Members that a preview and another membership have, in common or alone. */
export interface Compared {
  readonly key: string;
  readonly members: number;
  readonly both: number;
  /** Those of both with another value, of a trait. */
  readonly changed: number;
  readonly sample: readonly { readonly userId: string; readonly change: RunChange['change'] }[];
}

/** The definition's SQL is used by `sync` and `resync` only. */
export interface StageRequest extends Definition {
  /** The plan's name: letters, digits, `_` and `-` only. */
  readonly plan: string;
  readonly action: Action;
  /** The snapshot's version after `commit`. */
  readonly toVersion: number;
  /** True if a backfill or withdrawal includes users who left. */
  readonly leavers: boolean;
  /** True if a backfill is for them alone. */
  readonly onlyLeavers?: boolean;
  /**
   * A membership to compare with instead of the snapshot, of a past version. A backfill sends what has changed since, a
   * withdrawal ends this one. Users who changed in versions after it, up to `upTo`, are sent in any case.
   */
  readonly known?: { readonly version: number; readonly upTo: number } | null;
  /** True if `sql` does nothing but read rows that were staged for it. */
  readonly isRead?: boolean;
  /** For a preview, which may take it in place of `sql`. */
  readonly funnel?: Funnel | null;
  /** For a preview, which then compares with these in place of the snapshot. */
  readonly compare?: readonly Comparison[];
  /** True for a preview of the same SQL as the session's last one, which may read the log as that did. */
  readonly again?: boolean;
  /** Start of the run's lease: older plans of this key are leftovers of crashed runs and are removed. */
  readonly leasedAt: number;
}

/** A plan's counts. Nobody is `changed` in a backfill. */
export interface Staged extends RunCounts {
  readonly plan: string;
  readonly key: string;
  readonly kind: ComputedKind;
  readonly action: Action;
  readonly fromVersion: number;
  readonly toVersion: number;
  /** Members before. */
  readonly before: number;
  /** The changes by reason, if the engine knows more than their direction. */
  readonly reasons?: ReasonCounts;
  /** Rows of the plan: messages to send. */
  readonly total: number;
  /** Members whose columns change in the snapshot, without a message. */
  readonly silent?: number;
  /** The traits' keys, or the names of an audience's columns, in order. */
  readonly columns: readonly string[];
  /** Columns of an audience's result that its definition does not name, if it was run. */
  readonly unnamed?: readonly string[];
  /**
   * The greatest value of the request's `freshness` column, in milliseconds since 1970; null if it has none. Values
   * more than 14 hours after `asOf` count only if all are.
   */
  readonly newest?: number | null;
  /** The reason why it needs approval, whatever the counts; null if there is none. */
  readonly frozen?: string | null;
}

/** The cause of a live change, and when it happened, in milliseconds since 1970. */
export type ChangeOrigin = Pick<ChangeExplanation, 'cause' | 'changedAt'>;

/** Rows of a plan, by column. */
export interface ChangeBatch {
  /** Position in the plan, from 1, rising. */
  readonly positions: readonly number[];
  readonly userIds: readonly string[];
  /** True if the user is a member now. */
  readonly present: readonly boolean[];
  /** True if the user was one before. */
  readonly was: readonly boolean[];
  /** The origin of each change, if the engine computes live; null for those that no event, time or audience made. */
  readonly origins?: readonly (ChangeOrigin | null)[];
  /** JSON text: the traits object of a trait, null for users who left; the last known columns of an audience. */
  readonly values: readonly (string | null)[];
}

export interface Preview extends Staged {
  /** The counts of the request's funnel, if the engine took it. */
  readonly funnel?: readonly number[];
  /** Rows of the funnel's evidence. */
  readonly evidence?: readonly (readonly unknown[])[];
  readonly compared?: readonly Compared[];
  readonly sample: ChangeBatch;
}

/** Members, by column. */
export interface MemberBatch {
  readonly userIds: readonly string[];
  /** JSON text of the traits object, or of an audience's columns. */
  readonly values: readonly (string | null)[];
  /** The snapshot version in which each value was set. */
  readonly since: readonly number[];
}

export interface RunChange {
  readonly userId: string;
  readonly change: 'entered' | 'exited' | 'changed';
  /** JSON text of the traits object, or of an audience's columns; null for users who left. */
  readonly value: string | null;
}

/** A snapshot's version, and what it knows of a user. */
export interface UserInSnapshot {
  readonly version: number;
  readonly standing: Standing | undefined;
  readonly past: readonly Interval[];
}

/** A user was a member with this value from one version to another. */
export interface Interval {
  readonly value: string | null;
  readonly since: number;
  /** The version that ended it. */
  readonly until: number;
}

/** The reason for a live change of a user's value. */
export interface Cause {
  readonly version: number;
  /** Milliseconds since 1970. */
  readonly at: number;
  /** The time of the change: before `at` if it was on hold. */
  readonly changedAt: number;
  /** Null if the cause is not an event. */
  readonly event: CausingEvent | null;
  /** The SQL audience whose sync caused it; null for other causes. */
  readonly audience: string | null;
  /** The key whose sync gave the user another computed value; null for other causes. */
  readonly computed: string | null;
  /** True if a deletion took something that counted for the user. */
  readonly deletion: boolean;
  /** The moment at which time alone changed it, in ISO 8601; null for other causes. */
  readonly time: string | null;
}

interface CausingEvent {
  readonly messageId: string;
  readonly type: string;
  /** Name of a track event. */
  readonly event: string | null;
  /** Milliseconds since 1970. */
  readonly timestamp: number;
}

/** A user's state in the snapshot. */
export interface Standing {
  readonly present: boolean;
  /** JSON text of the traits object, or of an audience's columns. */
  readonly value: string | null;
  /** The snapshot version in which this was set. */
  readonly since: number;
}
