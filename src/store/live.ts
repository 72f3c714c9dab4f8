import type { Fence } from './fleet.ts';

/** State kept from the log for a source's live computation, and how far it has read. */
export interface LiveSource {
  /** Number of this state, never reused. */
  readonly state: number;
  readonly source: string;
  /** Hash of the parts of events that are kept; a different one needs a rebuild. */
  readonly asked: string;
  /** Position in the log up to which it has read, as the log gave it. */
  readonly position: string;
  /** Time of the last step, in milliseconds since 1970. */
  readonly at: number;
  /** Incremented when a process other than the leader changes the kept rows. */
  readonly revision: number;
  readonly isBuilding: boolean;
  /** True if the log has changed since it was built: it serves until a newly built state replaces it. */
  readonly isStale: boolean;
  /** True if it has replaced a stale state and has not yet evaluated everybody. */
  readonly isUnseen: boolean;
  /** Progress of a build in log rows; `total` is 0 until known. */
  readonly done: number;
  readonly total: number;
  /** Number of kept ids, and of persons with a due time. */
  readonly ids: number;
  readonly due: number;
}

export interface LiveRow {
  readonly raw: string;
  readonly person: string | null;
  readonly due: number | null;
  /** First day of receipt, counted from 1970, of data here that the log may drop; null if that makes no difference. */
  readonly oldest: number | null;
  /** JSON. */
  readonly kept: string;
  readonly links: string;
}

export interface LiveAudience {
  readonly key: string;
  readonly source: string;
  /** Hash of the definition that computed its members. */
  readonly definition: string;
  readonly version: number;
  readonly members: number;
  /** Why changes are held; null while they are sent. */
  readonly hold: string | null;
  /** The guard counts from this time on. */
  readonly judgedFrom: number;
}

/** The cause of a change as JSON, null if there is none, and the time at which it happened. */
export interface LiveOrigin {
  readonly cause: string | null;
  /** Milliseconds since 1970; null if unknown. */
  readonly changedAt: number | null;
}

/** A user's computed value with its origin until it is sent, and the value that was sent. Values are JSON; null for users who are not in it. */
export interface LiveMember extends LiveOrigin {
  readonly key: string;
  readonly user: string;
  readonly current: string | null;
  readonly told: string | null;
  /** The version that sent it. */
  readonly since: number;
}

export interface LiveChange extends LiveOrigin {
  readonly key: string;
  readonly user: string;
  readonly current: string | null;
  /** The version that sends it; null while the audience is on hold. */
  readonly version: number | null;
}

/** The changes of one step, applied all or none. */
export interface LiveCommit {
  readonly fence: Fence;
  readonly state: number;
  /** True if this state serves the source from now on, replacing another. */
  readonly serves: boolean;
  /** An SQL audience whose members are known in this version from now on; null for none. */
  readonly named: LiveNamed | null;
  readonly revision: number;
  /** The deletion epoch up to which deleted users were left out. */
  readonly epoch: number;
  readonly position: string;
  readonly at: number;
  readonly rows: readonly LiveRow[];
  /** Rows in which only `kept` and `links` have changed. */
  readonly contents: readonly LiveRow[];
  readonly gone: readonly string[];
  /** Increases in kept ids and in persons with a due time. */
  readonly more: { readonly ids: number; readonly due: number };
  readonly changes: readonly LiveChange[];
  /** Audiences whose members get other columns without a message. */
  readonly quiet: readonly string[];
  /** Audiences that send changes, with their new records. */
  readonly told: readonly LiveAdvance[];
  /** Audiences to put on hold, unless they are already. */
  readonly holds: readonly (readonly [key: string, hold: string])[];
}

/** The version of an SQL audience whose members a state knows; -1 while it does not know all. */
export interface LiveNamed {
  readonly key: string;
  readonly version: number;
}

/** A page of a build, written all or none. */
export interface LiveFill {
  readonly fence: Fence;
  readonly state: number;
  /** The deletion epoch up to which deleted users were left out. */
  readonly epoch: number;
  readonly rows: readonly LiveRow[];
  /** Not sent yet. */
  readonly changes: readonly Pick<LiveChange, 'key' | 'user' | 'current'>[];
  /** As that of a commit. */
  readonly quiet: readonly string[];
  readonly done: number;
  readonly total: number;
}

interface LiveAdvance {
  readonly key: string;
  readonly from: number;
  readonly to: number;
  /** Change in its number of members. */
  readonly members: number;
  readonly record: string;
}

export interface LiveCause extends LiveOrigin {
  readonly version: number;
  readonly at: number;
}

export interface LivePast {
  readonly value: string;
  readonly since: number;
  readonly until: number;
}

export type UserPast = LivePast & { readonly user: string };
export type UserCause = Omit<LiveCause, 'at'> & { readonly user: string };

/** A plan of live membership; its counts are the engine's. */
export interface LivePlan {
  readonly key: string;
  readonly toVersion: number;
  /** JSON. */
  readonly record: string;
}

export interface LivePlanRow extends LiveOrigin {
  readonly position: number;
  readonly user: string;
  readonly value: string | null;
  /** The value that was sent before. */
  readonly told: string | null;
}

/** Members to list: those sent, those with something yet to send, or all ever sent or computed. */
export type LiveWhich = 'told' | 'behind' | 'all';

/** State and membership of live audiences (docs/live.md). */
export interface LiveState {
  /** The state that serves a source; if none does, the one being built. */
  currentState(source: string): Promise<LiveSource | null>;
  /** The state being built for a source, or catching up until it serves. */
  nextState(source: string): Promise<LiveSource | null>;
  /** All states of all sources, including those about to be removed. */
  allStates(): Promise<readonly LiveSource[]>;
  /**
   * Begins a build: events after this position are read next. Resolves to the new state. Other states are discarded,
   * except the serving one if `beside`. Throws `fence_lost`.
   */
  beginState(source: string, asked: string, position: string, beside: boolean, fence: Fence): Promise<number>;
  /** Sets what a state keeps from now on, and which SQL audiences it knows the members of. Throws `fence_lost`. */
  setAsked(state: number, asked: string, named: readonly string[], fence: Fence): Promise<void>;
  /** Removes up to `limit` rows of a source's discarded states; resolves to true if there may be more. */
  clearOver(source: string, limit: number): Promise<boolean>;
  /** @throws RollcallError `fence_lost`, `epoch_moved` */
  fillState(fill: LiveFill): Promise<void>;
  /**
   * Ends a build: everything up to the position is kept. The state serves if none does.
   *
   * @throws RollcallError `fence_lost`, `live_moved` if its input has changed
   */
  endBuild(state: number, at: number, fence: Fence): Promise<void>;
  rowsOfIds(state: number, raws: readonly string[]): Promise<readonly LiveRow[]>;
  rowsOfPersons(state: number, persons: readonly string[]): Promise<readonly LiveRow[]>;
  /**
   * Rows of these ids and of all persons they belong to. A user id belongs to itself unless a row says otherwise.
   *
   * @param isLean - without other anonymous ids of which only links are kept
   */
  rowsAround(state: number, raws: readonly string[], isLean: boolean): Promise<readonly LiveRow[]>;
  /** Persons after this one with kept rows, in order. */
  personsAfter(state: number, after: string, limit: number): Promise<readonly string[]>;
  /** Persons that are due, earliest first; the earliest due time; and the next due time. */
  personsDue(
    state: number,
    now: number,
    limit: number,
  ): Promise<{ readonly persons: readonly string[]; readonly since: number | null; readonly next: number | null }>;
  /** Ids with data received before this day, counted from 1970. */
  idsOlderThan(state: number, first: number, limit: number): Promise<readonly string[]>;
  namedAudiences(state: number): Promise<readonly LiveNamed[]>;
  /** Scans ids after this one for users in an SQL audience; resolves to them and the last id, null at the end. */
  flaggedUsers(
    state: number,
    after: string,
    limit: number,
  ): Promise<{ readonly raws: readonly string[]; readonly last: string | null }>;
  /**
   * Scans the next computed members after this one for those without kept rows; resolves to them and the last member
   * scanned, null at the end.
   */
  strayMembers(
    state: number,
    key: string,
    after: string,
    limit: number,
  ): Promise<{ readonly users: readonly string[]; readonly last: string | null }>;
  membersOf(users: readonly string[], keys: readonly string[]): Promise<readonly LiveMember[]>;
  /** Writes one step without messages. @throws RollcallError `fence_lost`, `epoch_moved`, `live_moved` */
  commitStep(commit: LiveCommit): Promise<void>;
  audiences(): Promise<readonly LiveAudience[]>;
  /** Audiences with computed changes that have not been sent. */
  audiencesBehind(): Promise<readonly string[]>;
  /** Adds a live audience or updates its definition; one on hold stays on hold. */
  addAudience(key: string, source: string, definition: string, hold: string | null, fence: Fence): Promise<void>;
  /** Puts an audience on hold or releases it; the guard counts from `judgedFrom` on. */
  holdAudience(key: string, hold: string | null, judgedFrom: number | null): Promise<void>;
  /**
   * Counts users who entered, left and changed after `since`, and how many more members than now there were at most before one of
   * these steps and runs.
   *
   * @param until - ignores later ones, by a wrong clock
   */
  countChanges(
    key: string,
    since: number,
    until: number,
  ): Promise<{ readonly entered: number; readonly exited: number; readonly changed: number; readonly more: number }>;

  /** The first changes of an audience that have not been sent. */
  changesBehind(key: string, limit: number): Promise<readonly LiveMember[]>;
  memberPage(key: string, which: LiveWhich, after: string, limit: number): Promise<readonly LiveMember[]>;
  savePlan(plan: string, given: LivePlan): Promise<void>;
  findPlan(plan: string): Promise<LivePlan | null>;
  plansOf(key: string): Promise<readonly string[]>;
  addToPlan(plan: string, rows: readonly LivePlanRow[]): Promise<void>;
  planRows(plan: string, after: number, limit: number): Promise<readonly LivePlanRow[]>;
  /** Removes rows after this position. */
  cutPlan(plan: string, after: number): Promise<void>;
  dropPlan(plan: string): Promise<void>;
  /** Marks rows of a plan up to this position, after another, as sent at this time. */
  tellPlan(plan: string, after: number, upTo: number, at: number): Promise<void>;
  advanceAudience(key: string, version: number): Promise<void>;
  dropAudience(key: string): Promise<void>;
  pastValues(key: string, user: string): Promise<readonly LivePast[]>;
  causesOf(key: string, user: string): Promise<readonly LiveCause[]>;
  /** Past values of these users that ended after a version. */
  pastSince(key: string, version: number, users: readonly string[]): Promise<readonly UserPast[]>;
  /** Causes of what these users were told after a version. */
  causesSince(key: string, version: number, users: readonly string[]): Promise<readonly UserCause[]>;
  changedBy(key: string, version: number, after: string, limit: number): Promise<readonly LiveMember[]>;
  pruneChanges(before: number): Promise<void>;
  /** Removes users from membership, plans and pasts of these keys, or of all. */
  forgetUsers(users: readonly string[], keys: readonly string[] | null): Promise<void>;
  /**
   * Rewrites reduced rows and deletes others; the leader notices.
   *
   * @param known - the rows as they were read
   * @throws RollcallError `live_moved` if one of them, or a row to rewrite, is not like that any more
   */
  rewriteRows(
    state: number,
    known: readonly LiveRow[],
    rows: readonly LiveRow[],
    gone: readonly string[],
  ): Promise<void>;
  /** Discards the state of every source so that it is rebuilt: none of it can be relied on. */
  rebuildAll(): Promise<void>;
  /** As `rebuildAll`, for one source or all, but the current state serves until a new one replaces it. */
  renewStates(source: string | null): Promise<void>;
  /** Records that a state that replaced a stale one has evaluated everybody. Throws `fence_lost`. */
  markSeen(state: number, fence: Fence): Promise<void>;
  /** Discards all states of a source: nothing is live there. `clearOver` removes them. Throws `fence_lost`. */
  dropSource(source: string, fence: Fence): Promise<void>;
  /** Rows after this one that are linked to several users. */
  sharedRows(state: number, after: string, limit: number): Promise<readonly LiveRow[]>;
}
