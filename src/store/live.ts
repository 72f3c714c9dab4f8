import type { Fence } from './fleet.ts';

/** What is kept of the log for the live computation of a source, and how far that is. */
export interface LiveSource {
  /** The number of this state; never that of another one. */
  readonly state: number;
  readonly source: string;
  /** Hash of what is kept of the log's events; another one needs another build. */
  readonly asked: string;
  /** Up to where the log has been read; as the log gave it. */
  readonly position: string;
  /** The time of the last step, in milliseconds since 1970. */
  readonly at: number;
  /** Rises when somebody else than the leader changed what is kept. */
  readonly revision: number;
  readonly isBuilding: boolean;
  /** Whether the log has changed since it was built: it serves until another state has been built and takes its place. */
  readonly isStale: boolean;
  /** Whether it has taken the place of a stale one, and not everybody has been looked at by it. */
  readonly isUnseen: boolean;
  /** How far a build is: rows of the log, `total` 0 as long as it is not known. */
  readonly done: number;
  readonly total: number;
  /** How many ids are kept, how many persons are due some time. */
  readonly ids: number;
  readonly due: number;
}

/** The state that is kept of one id. */
export interface LiveRow {
  readonly raw: string;
  readonly person: string | null;
  readonly due: number | null;
  /** First day of receipt, counted from 1970, of what here the log may forget; null where that makes no difference. */
  readonly oldest: number | null;
  /** JSON. */
  readonly kept: string;
  readonly links: string;
}

/** A live audience or trait. */
export interface LiveAudience {
  readonly key: string;
  readonly source: string;
  /** Hash of the definition that its members were computed by. */
  readonly definition: string;
  /** Of the values that were sent. */
  readonly version: number;
  readonly members: number;
  /** Why nothing is sent as it is computed; null while it is. */
  readonly hold: string | null;
  /** From when on the guard counts. */
  readonly judgedFrom: number;
}

/** A user's computed value, and the value that destinations were sent. Values are JSON; null for users who are not in it. */
export interface LiveMember {
  readonly key: string;
  readonly user: string;
  readonly current: string | null;
  readonly told: string | null;
  /** The version that brought the value that was sent. */
  readonly since: number;
}

/** Another value of a user. */
export interface LiveChange {
  readonly key: string;
  readonly user: string;
  readonly current: string | null;
  /** The version that tells it; null while the audience is on hold. */
  readonly version: number | null;
  /** JSON: the event that made it; null for the time. */
  readonly cause: string | null;
}

/** The changes of one step, all of them or none. */
export interface LiveCommit {
  readonly fence: Fence;
  readonly state: number;
  /** Whether this state serves the source from now on, in place of another. */
  readonly serves: boolean;
  /** An audience by SQL that is known in this version from now on; null for none. */
  readonly named: LiveNamed | null;
  readonly revision: number;
  /** The deletion epoch up to which deleted users were left out. */
  readonly epoch: number;
  readonly position: string;
  readonly at: number;
  readonly rows: readonly LiveRow[];
  /** Rows of which nothing has changed but `kept` and `links`. */
  readonly contents: readonly LiveRow[];
  /** Rows that nothing is left of. */
  readonly gone: readonly string[];
  /** How many more ids are kept, and how many more persons are due, than before. */
  readonly more: { readonly ids: number; readonly due: number };
  readonly changes: readonly LiveChange[];
  /** Audiences that send changes, with their records from then on. */
  readonly told: readonly LiveAdvance[];
  /** Audiences that are put on hold, unless they are already. */
  readonly holds: readonly (readonly [key: string, hold: string])[];
}

/** The version of an audience by SQL whose members a state knows; -1 while it does not know all. */
export interface LiveNamed {
  readonly key: string;
  readonly version: number;
}

/** A page of a build, all of it or nothing. */
export interface LiveFill {
  readonly fence: Fence;
  readonly state: number;
  /** The deletion epoch up to which deleted users were left out. */
  readonly epoch: number;
  readonly rows: readonly LiveRow[];
  /** Nobody hears of them yet. */
  readonly changes: readonly Pick<LiveChange, 'key' | 'user' | 'current'>[];
  readonly done: number;
  readonly total: number;
}

interface LiveAdvance {
  readonly key: string;
  readonly from: number;
  readonly to: number;
  /** How many members it has more. */
  readonly members: number;
  /** The record of the audience, as JSON. */
  readonly record: string;
}

/** A change of a user that was sent, and its cause. */
export interface LiveCause {
  readonly version: number;
  readonly at: number;
  readonly cause: string | null;
}

/** A value of a user that is over. */
export interface LivePast {
  readonly value: string;
  readonly since: number;
  readonly until: number;
}

/** A plan of live membership: its counts are the engine's. */
export interface LivePlan {
  readonly key: string;
  readonly toVersion: number;
  /** JSON. */
  readonly record: string;
}

export interface LivePlanRow {
  readonly position: number;
  readonly user: string;
  readonly value: string | null;
  /** The value that was sent before. */
  readonly told: string | null;
}

/** Members to look at: those sent, those with something yet to send, or all that were ever sent or computed. */
export type LiveWhich = 'told' | 'behind' | 'all';

/** State and membership of live audiences (docs/live.md). */
export interface LiveState {
  /** The state that serves a source; where there is none, the one that is being built. */
  currentState(source: string): Promise<LiveSource | null>;
  /** The state that is being built for a source, or that catches up until it serves. */
  nextState(source: string): Promise<LiveSource | null>;
  /** All of all sources, those too that are about to be removed. */
  allStates(): Promise<readonly LiveSource[]>;
  /**
   * Begins a build: events after this position are read next. Resolves to the new state. Others count no more, but that
   * which goes on serving (if `beside`). Throws `fence_lost`.
   */
  beginState(source: string, asked: string, position: string, beside: boolean, fence: Fence): Promise<number>;
  /** Says what a state keeps from now on, and of which audiences by SQL it knows the members. Throws `fence_lost`. */
  setAsked(state: number, asked: string, named: readonly string[], fence: Fence): Promise<void>;
  /** Removes up to `limit` rows of a source's states that count no more; resolves to whether there may be others. */
  clearOver(source: string, limit: number): Promise<boolean>;
  /** @throws RollcallError `fence_lost`, `epoch_moved` */
  fillState(fill: LiveFill): Promise<void>;
  /**
   * Everything up to the position is kept now. The state serves if none does.
   *
   * @throws RollcallError `fence_lost`, `live_moved` where what it was built from has changed
   */
  endBuild(state: number, at: number, fence: Fence): Promise<void>;
  rowsOfIds(state: number, raws: readonly string[]): Promise<readonly LiveRow[]>;
  rowsOfPersons(state: number, persons: readonly string[]): Promise<readonly LiveRow[]>;
  /**
   * Rows of these ids, and of all persons whom they belong to. A user id belongs to itself where no row says otherwise.
   *
   * @param isLean - without other anonymous ids of which only links are kept
   */
  rowsAround(state: number, raws: readonly string[], isLean: boolean): Promise<readonly LiveRow[]>;
  /** Persons after this one of whom anything is kept, in order. */
  personsAfter(state: number, after: string, limit: number): Promise<readonly string[]>;
  /** Persons whose time has come, the first ones first, since when the first one's has, and the next time. */
  personsDue(
    state: number,
    now: number,
    limit: number,
  ): Promise<{ readonly persons: readonly string[]; readonly since: number | null; readonly next: number | null }>;
  /** Ids of which something was received before this day, counted from 1970. */
  idsOlderThan(state: number, first: number, limit: number): Promise<readonly string[]>;
  /** Audiences by SQL that a state knows. */
  namedAudiences(state: number): Promise<readonly LiveNamed[]>;
  /** Looks through the next ids after this one: users who are in an audience by SQL, and the last that was looked at; null at the end. */
  flaggedUsers(
    state: number,
    after: string,
    limit: number,
  ): Promise<{ readonly raws: readonly string[]; readonly last: string | null }>;
  /**
   * Looks through the next members after this one, by what was computed: those of whom nothing is kept, and the last that was
   * looked at; null at the end.
   */
  strayMembers(
    state: number,
    key: string,
    after: string,
    limit: number,
  ): Promise<{ readonly users: readonly string[]; readonly last: string | null }>;
  membersOf(users: readonly string[], keys: readonly string[]): Promise<readonly LiveMember[]>;
  /** One step without messages. @throws RollcallError `fence_lost`, `epoch_moved`, `live_moved` */
  commitStep(commit: LiveCommit): Promise<void>;
  audiences(): Promise<readonly LiveAudience[]>;
  /** Audiences with computed changes that are not sent yet. */
  audiencesBehind(): Promise<readonly string[]>;
  /** Makes a live audience known, or its definition; one that is on hold stays so. */
  addAudience(key: string, source: string, definition: string, hold: string | null, fence: Fence): Promise<void>;
  /** Puts an audience on hold, or lets it go on; the guard counts from `judgedFrom` on. */
  holdAudience(key: string, hold: string | null, judgedFrom: number | null): Promise<void>;
  /** Those who entered and left by steps after `since`. @param until - what comes later was done by a clock that was wrong */
  countChanges(
    key: string,
    since: number,
    until: number,
  ): Promise<{ readonly entered: number; readonly exited: number }>;

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
  /** Sets the version that is sent from now on. */
  advanceAudience(key: string, version: number): Promise<void>;
  dropAudience(key: string): Promise<void>;
  pastValues(key: string, user: string): Promise<readonly LivePast[]>;
  causesOf(key: string, user: string): Promise<readonly LiveCause[]>;
  changedBy(key: string, version: number, after: string, limit: number): Promise<readonly LiveMember[]>;
  pruneChanges(before: number): Promise<void>;
  /** Takes users out of membership, plans and pasts of these keys, or of all. */
  forgetUsers(users: readonly string[], keys: readonly string[] | null): Promise<void>;
  /** Writes rows that lost something, and drops others; the leader notices. */
  rewriteRows(state: number, rows: readonly LiveRow[], gone: readonly string[]): Promise<void>;
  /** Has what is kept of each source be built anew: nothing of it can be relied on. */
  rebuildAll(): Promise<void>;
  /** As `rebuildAll`, of one source or of all; but what is built already serves until another state takes its place. */
  renewStates(source: string | null): Promise<void>;
  /** Everybody was looked at by a state that took the place of a stale one. Throws `fence_lost`. */
  markSeen(state: number, fence: Fence): Promise<void>;
  /** All states of a source count no more: nothing is live there. `clearOver` removes them. Throws `fence_lost`. */
  dropSource(source: string, fence: Fence): Promise<void>;
  /** Rows after this one that several users were said to have. */
  sharedRows(state: number, after: string, limit: number): Promise<readonly LiveRow[]>;
}
