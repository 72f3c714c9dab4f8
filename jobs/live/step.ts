import partition from 'lodash/partition.js';
import type { ChangeReason, ReasonCounts } from '../../src/membership-change.ts';
import type { Message } from '../../src/message.ts';
import type { LiveAudience, LiveChange, LiveCommit, LiveMember } from '../../src/store/live.ts';
import type { AudienceRecord, Deletions, Fence, Store } from '../../src/store/port.ts';
import { nameOf, type SyncConfig } from '../audience-or-trait.ts';
import type { Staged } from '../engines/port.ts';
import { type ChangeMessage, changeMessages } from '../run/change-messages.ts';
import { liveExplanation } from '../run/explanations.ts';
import { messageIds } from '../run/message-ids.ts';
import { inStep, lapse } from '../run/owed-membership.ts';
import type { AcceptChanges } from '../run/run-context.ts';
import { scopeOf } from '../run/run-record.ts';
import { pendingForms } from '../run/send.ts';
import { type LiveComputation, liveRun, sendsValues } from './definitions.ts';
import { type Difference, differences, originOf, quietKeys, withoutExcluded } from './differences.ts';
import type { AskedOfAll } from './facts.ts';
import { whyFrozen } from './guard.ts';
import { type News, step } from './people.ts';
import { rowsOf, written } from './state-rows.ts';
import { valueText } from './stored-value.ts';

/** A leader's context: the definitions it computes, and the state it writes. */
export interface LivePlace {
  readonly store: Store;
  readonly accept: AcceptChanges;
  readonly config: () => SyncConfig;
  readonly source: string;
  readonly fence: Fence;
  /** The store's key for message ids. */
  readonly hashKey: string;
  /** The state it reads and writes. */
  readonly state: number;
  /** True if the state no longer matches the log, so that a successor will replace it. */
  readonly isStale: boolean;
  /** The facts that the state keeps. */
  readonly asked: AskedOfAll;
  /** The computations whose membership it keeps. */
  readonly computations: ReadonlyMap<string, LiveComputation>;
  /** Keys of computations that send nothing yet, because not everybody has been evaluated. */
  readonly silent: ReadonlySet<string>;
}

export interface StepInput extends News {
  readonly position: string;
  readonly revision: number;
  readonly deletions: Deletions;
  /** Audiences after a hold, which now send the changes since. */
  readonly flush: readonly string[];
  /** True if the state serves the source from this step on. */
  readonly serves: boolean;
  /** The version of an SQL audience that is known from this step on. */
  readonly named: LiveCommit['named'];
}

interface StepResult {
  /** Number of persons evaluated, and of changes sent. */
  readonly touched: number;
  readonly sent: number;
  /** Audiences that have sent all their pending changes, or are on hold again. */
  readonly flushed: readonly string[];
  readonly moved: readonly LiveMoved[];
}

/** Numbers of users sent as entering and leaving an audience. */
export interface LiveMoved {
  readonly key: string;
  readonly entered: number;
  readonly exited: number;
  readonly reasons: ReasonCounts;
}

/** The most changes that a flush sends at once. */
const FLUSHED = 1_000;

const toEach = (message: Message): readonly string[] => (message as ChangeMessage).to;

/** Computes one step. Writes its state and accepts its messages in one transaction. */
export async function takeStep(place: LivePlace, input: StepInput): Promise<StepResult> {
  const { store, source, state, asked, computations } = place;
  const { now, deletions } = input;
  const { rows, standings } = await step(asked, rowsOf(store.live, state), input);
  const keys = [...computations.keys()];
  const users = standings.map(({ person }) => person);
  const members = await store.live.membersOf(users, keys);
  const found = differences(standings, members, computations, now);
  // Audiences with more pending changes than are sent at once.
  const full = new Set<string>();
  for (const key of input.flush) {
    const behind = await store.live.changesBehind(key, FLUSHED);
    if (behind.length === FLUSHED) full.add(key);
    found.push(...stillBehind(behind, found));
  }
  const draft = new Draft(place, now);
  const kept = new Set(rows);
  if (found.length > 0) {
    const [{ changes, waiting }] = await Promise.all([
      withoutExcluded(store, source, found, deletions, now),
      draft.load(found),
    ]);
    for (const { person, own } of standings) {
      const until = waiting.get(person);
      if (until === undefined) continue;
      own.due = Math.min(own.due ?? until, until);
      kept.add(own);
    }
    for (const [key, some] of Map.groupBy(changes, (change) => change.key)) await draft.add(key, some);
  }
  const { fence } = place;
  const { position, revision, serves, named } = input;
  const { epoch } = deletions;
  const commit: LiveCommit = {
    ...{ fence, state, serves, named, revision, epoch, position, at: now },
    ...written([...kept]),
    ...{ changes: draft.changes, quiet: quietKeys(found, computations), told: draft.told, holds: draft.holds },
  };
  if (draft.messages.length === 0) await store.live.commitStep(commit);
  else await place.accept(source, draft.messages, { lane: 'live', toEach, live: commit });
  // An audience that sent nothing is on hold again, and is flushed after that.
  const told = new Set(draft.told.map(({ key }) => key));
  const flushed = input.flush.filter((key) => !full.has(key) || !told.has(key));
  return { touched: standings.length, sent: draft.messages.length, flushed, moved: draft.moved };
}

function stillBehind(behind: readonly LiveMember[], found: readonly Difference[]): readonly Difference[] {
  const known = new Set(found.map(({ key, user }) => `${key} ${user}`));
  return behind.filter(({ key, user }) => !known.has(`${key} ${user}`));
}

function turnoverOf(news: readonly Difference[]): Pick<Staged, 'entered' | 'exited' | 'changed'> {
  const entered = news.filter(({ told }) => told === null).length;
  const exited = news.filter(({ current }) => current === null).length;
  return { entered, exited, changed: news.length - entered - exited };
}

const changeOf = ({ key, user, current, cause, changedAt }: Difference, version: number | null): LiveChange => {
  return { key, user, current, cause, changedAt, version };
};

/** A step's rows and messages, collected audience by audience. */
class Draft {
  readonly changes: LiveChange[] = [];
  readonly told: LiveCommit['told'][number][] = [];
  readonly moved: LiveMoved[] = [];
  readonly holds: (readonly [string, string])[] = [];
  readonly messages: ChangeMessage[] = [];
  private readonly place: LivePlace;
  private readonly now: number;
  private audiences: ReadonlyMap<string, LiveAudience> = new Map();
  private records: ReadonlyMap<string, AudienceRecord> = new Map();
  /** Keys of audiences that a person paused. */
  private paused: ReadonlySet<string> = new Set();

  constructor(place: LivePlace, now: number) {
    this.place = place;
    this.now = now;
  }

  /** Reads everything that changes of audiences depend on, in one go. */
  async load(changes: readonly Difference[]): Promise<void> {
    const { store } = this.place;
    const keys = [...new Set(changes.map(({ key }) => key))];
    const [audiences, paused, records] = await Promise.all([
      store.live.audiences(),
      store.pausedAudiences(),
      store.audiences(keys),
    ]);
    this.audiences = new Map(audiences.map((each) => [each.key, each]));
    this.paused = new Set(paused.map(({ key }) => key));
    this.records = new Map(records.map((each) => [each.key, each]));
  }

  async add(key: string, found: readonly Difference[]): Promise<void> {
    const { store, computations, silent } = this.place;
    const audience = this.audiences.get(key);
    const computation = computations.get(key)?.computation;
    if (!audience || !computation) return;
    const sendsColumns = sendsValues(computation);
    const [quiet, changes] = partition(found, (each) => !sendsColumns && each.current !== null && each.told !== null);
    this.changes.push(...quiet.map((change) => changeOf(change, null)));
    if (changes.length === 0) return;
    const record = audience.hold === null && !silent.has(key) ? (this.records.get(key) ?? null) : null;
    const news = changes.filter(({ current, told }) => current !== told);
    const frozen =
      record && !computation.guard.isDefault
        ? await whyFrozen(store.live, computation.guard, audience, turnoverOf(news), this.now)
        : null;
    const isPaused = computation.paused || this.paused.has(key);
    if (record && frozen === null && !isPaused && record.version === audience.version) {
      return this.tell(audience, record, news, changes);
    }
    const hold = frozen ?? 'behind';
    if (audience.hold === null && !silent.has(key)) this.holds.push([key, hold]);
    this.changes.push(...changes.map((change) => changeOf(change, null)));
  }

  private async tell(
    { key, version }: LiveAudience,
    record: AudienceRecord,
    news: readonly Difference[],
    all: readonly Difference[],
  ): Promise<void> {
    const { store, config, computations, hashKey } = this.place;
    const { computation } = computations.get(key) as LiveComputation;
    const { kind, source } = computation;
    const next = version + 1;
    const { destinations } = config();
    const scope = scopeOf('sync', record, { key, source }, destinations);
    const behind = record.destinations.filter((name) => !scope.includes(name) && !record.lapsed.includes(name));
    const first = Math.max(record.sequence, this.now * 1000);
    const columns = computation.kind === 'trait' ? [key] : Object.keys(computation.with ?? {});
    const reasons: Partial<Record<ChangeReason, number>> = {};
    const messages = changeMessages({
      ...{ key, name: nameOf(key, config()), kind, columns, removed: record.formerColumns },
      ...{ at: this.now, now: () => this.now, destinations, scope, pending: await pendingForms(store, key) },
      idOf: (edition) => messageIds(hashKey, liveRun(key, next), edition === '' ? '*' : `* ${edition}`),
    });
    for (const [index, difference] of news.entries()) {
      const { user, current, told } = difference;
      // Users who leave an audience have the last known columns.
      const value = valueText(kind, key, kind === 'audience' ? (current ?? told) : current);
      const direction = { present: current !== null, was: told !== null };
      const explanation = liveExplanation(direction, originOf(difference), this.now);
      reasons[explanation.reason] = (reasons[explanation.reason] ?? 0) + 1;
      const change = {
        ...explanation,
        ...{ userId: user, present: current !== null, value, sequence: first + index + 1 },
      };
      this.messages.push(...messages(change));
    }
    const { entered, exited } = turnoverOf(news);
    this.moved.push({ key, entered, exited, reasons });
    this.told.push({
      key,
      from: version,
      to: next,
      members: entered - exited,
      record: JSON.stringify({
        ...record,
        ...{ version: next, sequence: first + news.length, destinations: scope },
        ...lapse(record, behind, () => inStep(version, this.now)),
      } satisfies AudienceRecord),
    });
    this.changes.push(...all.map((change) => changeOf(change, next)));
  }
}
