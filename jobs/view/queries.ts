import { seesLog } from '../../src/config/event-log.ts';
import type { Clock } from '../../src/kernel/clock.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import type { Run, Store } from '../../src/store/port.ts';
import type { SyncConfig } from '../audience-or-trait.ts';
import { DIALECTS } from '../engines/definitions/compile.ts';
import { MOST_NAMES, namesQuery, readName, type SeenName } from '../engines/definitions/names.ts';
import type { Engine, MemberBatch, RunChange } from '../engines/port.ts';
import { enginesWithSnapshots, type ReadEngine } from '../open-engines.ts';
import type { Subjects } from '../run/audience-subjects.ts';
import { type ChangePage, type ChangePlace, changePageOf, changesOf, compareIds } from '../run/run-changes.ts';
import type { JobLog, Subject } from '../run/run-context.ts';
import { missing } from '../run/snapshot-version.ts';
import type { Orders } from '../schedule/orders.ts';
import { askedIds, conditionsOf } from './absence.ts';
import { type AudienceStatus, audienceStatuses } from './audience-status.ts';
import { type Person, tellPerson } from './person.ts';
import { type DestinationStanding, destinationStandings } from './standings.ts';
import { stepsOf } from './steps.ts';
import { type Story, tellPast, tellStory } from './why.ts';

/** Reads audiences, members and changes. Writes nothing. What reads from an engine throws `engine_busy` too. */
export interface Queries {
  /** The status of each audience and trait, orphans last. */
  audiences(): Promise<readonly AudienceStatus[]>;
  /**
   * Passes the members to `each`, unordered, in batches.
   *
   * @throws RollcallError `unknown_audience`, `snapshot_lost`, `engine_changed`
   */
  members(key: string, each: (batch: MemberBatch) => Promise<void>): Promise<void>;
  /**
   * At most `limit` members after this user ('' for the first), ordered by id.
   *
   * @param signal - cancels the query
   * @throws RollcallError `unknown_audience`, `snapshot_lost`, `engine_changed`
   */
  memberPage(key: string, after: string, limit: number, signal?: AbortSignal): Promise<MemberBatch>;
  /** Passes the changes made by a run, or planned by an unfinished one. @throws RollcallError `unknown_run` */
  changes(run: string, each: (changes: readonly RunChange[]) => Promise<void>): Promise<void>;
  /** A page of them after a place, ordered by user id. @throws RollcallError `unknown_run` */
  changePage(run: string, after: ChangePlace, limit: number, signal?: AbortSignal): Promise<ChangePage>;
  /** One user's story in one audience, retired or not. @throws RollcallError `unknown_audience` */
  why(
    key: string,
    user: string,
    asked?: { readonly at?: number | undefined; readonly signal?: AbortSignal },
  ): Promise<Story>;
  /** The knowledge that each destination has of each audience and trait. */
  standings(): Promise<readonly DestinationStanding[]>;
  /** Names that the event log has seen lately, in an engine that sees it. None without a log. */
  names(signal?: AbortSignal): Promise<readonly SeenName[]>;
  /** One user in every audience and trait. Engines that don't answer are named, and the rest is shown. */
  person(user: string, asked?: { readonly at?: number | undefined; readonly signal?: AbortSignal }): Promise<Person>;
}

interface QueriesOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly config: () => SyncConfig;
  readonly log: JobLog;
  readonly subjects: Subjects;
  readonly look: ReadEngine;
  readonly lookUp: ReadEngine;
  readonly ordered: Orders['waiting'];
}

export function createQueries({ store, clock, config, log, subjects, look, lookUp, ordered }: QueriesOptions): Queries {
  const parts = { store, config, subjects };
  return {
    audiences: async () => audienceStatuses({ store, clock, config, log, ordered }, await subjects.orphans()),
    standings: () => destinationStandings({ store, config }),
    async members(key, each) {
      const subject = await subjects.findWhereItLies(key);
      await look(subject.engine, async (engine) => {
        await checkSnapshot(parts, engine, subject);
        for await (const batch of engine.members(key)) await each(batch);
      });
    },
    async memberPage(key, after, limit, signal) {
      const subject = await subjects.findWhereItLies(key);
      const page = async (engine: Engine) => {
        await checkSnapshot(parts, engine, subject);
        return engine.memberPage(key, after, limit);
      };
      return look(subject.engine, page, signal);
    },
    async changes(id, each) {
      const run = await theRun(store, id);
      for (const name of await enginesOf(parts, run.key)) {
        await look(name, async (engine) => {
          for await (const changes of changesOf(engine, run)) await each(changes);
        });
      }
    },
    async changePage(id, after, limit, signal) {
      const run = await theRun(store, id);
      const pages: ChangePage[] = [];
      for (const name of await enginesOf(parts, run.key)) {
        pages.push(await look(name, (engine) => changePageOf(engine, run, after, limit), signal));
      }
      return merged(pages, limit);
    },
    async names(signal) {
      const { engines, eventLog, store: at } = config();
      const [name, { type } = { type: '' }] =
        Object.entries(engines).find(([, engine]) => eventLog && at && seesLog(engine, at.url)) ?? [];
      if (name === undefined || (type !== 'duckdb' && type !== 'postgres')) return [];
      const asked = { key: 'names', user: '', asOf: clock.now(), signal };
      const found = await askedIds(look, name, namesQuery(DIALECTS[type]), MOST_NAMES, asked);
      return [...found].map(readName);
    },
    person: (user, { at, signal } = {}) => tellPerson({ store, config, look: lookUp }, user, at ?? null, signal),
    async why(key, user, { at, signal } = {}) {
      const asOf = at ?? null;
      const subject = await subjects.findWhereItLies(key).catch(async (error) => {
        // It is no longer known, but ran before.
        if ((await store.runs({ key, limit: 1 })).length > 0) return null;
        throw error;
      });
      if (subject) {
        const tell = (engine: Engine) => tellStory({ store, engine, subject, config }, user, asOf);
        const story = await look(subject.engine, tell, signal);
        const about = { key, user, asOf: asOf ?? clock.now(), signal };
        const steps = await stepsOf(config(), look, about);
        const { conditions = [], absence = null } = (await conditionsOf(config(), look, about)) ?? {};
        return { ...story, steps, conditions, absence: story.member === false ? absence : null };
      }
      const names = enginesWithSnapshots(config());
      return withEngines(names, look, signal, (engines) => tellPast(store, engines, key, user, asOf));
    },
  };
}

type Parts = Pick<QueriesOptions, 'store' | 'config' | 'subjects'>;

/** Engines that may have the runs of a key: that of its subject or, once it is gone, any configured one. */
async function enginesOf({ subjects, config }: Parts, key: string): Promise<readonly string[]> {
  const subject = await subjects.findWhereItLies(key).catch((error) => {
    if (error instanceof RollcallError && error.code === 'unknown_audience') return null;
    throw error;
  });
  return subject ? [subject.engine] : enginesWithSnapshots(config());
}

async function checkSnapshot({ store, config }: Parts, engine: Engine, subject: Subject): Promise<void> {
  const record = await store.audience(subject.key);
  if (record && (await engine.snapshot(subject.key)).version < record.version)
    throw missing({ subject, config }, record);
}

async function theRun(store: Store, id: string): Promise<Run> {
  const run = await store.run(id);
  if (!run) throw new RollcallError('unknown_run', `There is no run ${id}.`);
  return run;
}

/** Merges pages of several engines, for a key that is no longer configured. A plan is in one of them. */
function merged(pages: readonly ChangePage[], limit: number): ChangePage {
  const [only, second] = pages.filter(({ changes, next }) => changes.length > 0 || next !== null);
  if (!only) return { changes: [], next: null };
  if (!second) return only;
  const all = pages.flatMap(({ changes }) => changes).sort((a, b) => compareIds(a.userId, b.userId));
  const changes = all.slice(0, limit);
  const isLast = all.length <= limit && pages.every(({ next }) => next === null);
  return { changes, next: isLast ? null : { position: 0, user: changes.at(-1)?.userId ?? '' } };
}

async function withEngines<T>(
  names: readonly string[],
  look: ReadEngine,
  signal: AbortSignal | undefined,
  work: (engines: readonly Engine[]) => Promise<T>,
  opened: readonly Engine[] = [],
): Promise<T> {
  const [name, ...rest] = names;
  if (name === undefined) return work(opened);
  return look(name, (engine) => withEngines(rest, look, signal, work, [...opened, engine]), signal);
}
