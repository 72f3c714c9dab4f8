import type { Clock } from '../../src/kernel/clock.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import type { Run, Store } from '../../src/store/port.ts';
import type { SyncConfig } from '../audience-or-trait.ts';
import type { Engine, MemberBatch, RunChange } from '../engines/port.ts';
import type { WithEngine } from '../open-engines.ts';
import type { Subjects } from '../run/audience-subjects.ts';
import { type ChangePage, type ChangePlace, changePageOf, changesOf, compareIds } from '../run/run-changes.ts';
import type { JobLog, Subject } from '../run/run-context.ts';
import { missing } from '../run/snapshot-version.ts';
import { type AudienceStatus, audienceStatuses } from './audience-status.ts';
import { type Story, tellPast, tellStory } from './why.ts';

/** Reads audiences, members and changes. Writes nothing. */
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
   * @throws RollcallError `unknown_audience`, `snapshot_lost`, `engine_changed`
   */
  memberPage(key: string, after: string, limit: number): Promise<MemberBatch>;
  /** Passes the changes made by a run, or planned by an unfinished one. @throws RollcallError `unknown_run` */
  changes(run: string, each: (changes: readonly RunChange[]) => Promise<void>): Promise<void>;
  /** A page of them after a place, ordered by user id. @throws RollcallError `unknown_run` */
  changePage(run: string, after: ChangePlace, limit: number): Promise<ChangePage>;
  /** One user's story in one audience, retired or not. @throws RollcallError `unknown_audience` */
  why(key: string, user: string, time?: { readonly at?: number | undefined }): Promise<Story>;
}

interface QueriesOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly config: () => SyncConfig;
  readonly log: JobLog;
  readonly subjects: Subjects;
  readonly withEngine: WithEngine;
}

export function createQueries({ store, clock, config, log, subjects, withEngine }: QueriesOptions): Queries {
  const parts = { store, config, subjects };
  return {
    audiences: async () => audienceStatuses({ store, clock, config, log }, await subjects.orphans()),
    async members(key, each) {
      const subject = await subjects.findWhereItLies(key);
      await withEngine(subject.engine, true, async (engine) => {
        await checkSnapshot(parts, engine, subject);
        for await (const batch of engine.members(key)) await each(batch);
      });
    },
    async memberPage(key, after, limit) {
      const subject = await subjects.findWhereItLies(key);
      return withEngine(subject.engine, true, async (engine) => {
        await checkSnapshot(parts, engine, subject);
        return engine.memberPage(key, after, limit);
      });
    },
    async changes(id, each) {
      const run = await theRun(store, id);
      for (const name of await enginesOf(parts, run.key)) {
        await withEngine(name, true, async (engine) => {
          for await (const changes of changesOf(engine, run)) await each(changes);
        });
      }
    },
    async changePage(id, after, limit) {
      const run = await theRun(store, id);
      const pages: ChangePage[] = [];
      for (const name of await enginesOf(parts, run.key)) {
        pages.push(await withEngine(name, true, (engine) => changePageOf(engine, run, after, limit)));
      }
      return merged(pages, limit);
    },
    async why(key, user, { at } = {}) {
      const asOf = at ?? null;
      const subject = await subjects.findWhereItLies(key).catch(async (error) => {
        // It is no longer known, but ran before.
        if ((await store.runs({ key, limit: 1 })).length > 0) return null;
        throw error;
      });
      if (subject) {
        return withEngine(subject.engine, true, (engine) => tellStory({ store, engine, subject, config }, user, asOf));
      }
      return withEngines(Object.keys(config().engines), withEngine, (engines) =>
        tellPast(store, engines, key, user, asOf),
      );
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
  return subject ? [subject.engine] : Object.keys(config().engines);
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
  withEngine: WithEngine,
  work: (engines: readonly Engine[]) => Promise<T>,
  opened: readonly Engine[] = [],
): Promise<T> {
  const [name, ...rest] = names;
  if (name === undefined) return work(opened);
  return withEngine(name, true, (engine) => withEngines(rest, withEngine, work, [...opened, engine]));
}
