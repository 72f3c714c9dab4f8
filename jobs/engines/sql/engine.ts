import { ALL_VIEWS, namedViews } from '../../../src/store/events/views.ts';
import type { Definition, Engine, Staged, StageRequest, TraitColumn } from '../port.ts';
import { commitPlan } from './commit.ts';
import {
  pruneHistory,
  readHistory,
  readMemberPage,
  readMembers,
  readRunChangePage,
  readRunChanges,
} from './history.ts';
import { readForMove, removeMoved, writeMoved } from './move.ts';
import { giveTo, readOwner, readVersions } from './ownership.ts';
import { literal, type SqlDialect } from './plan-query.ts';
import { interruptible, type SqlDatabase, transaction } from './session.ts';
import { previewPlan, readChanges, stagePlan, traitColumns } from './stage.ts';
import {
  createRegistry,
  dataTables,
  dropLeftovers,
  dropPlan,
  dropSnapshot,
  readSnapshot,
  readStaged,
  tablesOf,
} from './tables.ts';
import { forgetUsers, lookupEverywhere, lookupUsers } from './users.ts';

/** Tries of SQL that reads files of the log, which are occasionally replaced. */
const TRIES = 5;

/** Does the work of a definition over the current event log, if its SQL may read it. */
async function overEvents<T>(
  { events }: SqlDatabase,
  { sql, again = false }: Definition & Pick<StageRequest, 'again'>,
  work: () => Promise<T>,
): Promise<T> {
  let views = namedViews(sql);
  if (!events || views.size === 0) return work();
  for (let attempt = 1; ; attempt += 1) {
    try {
      if (!again || attempt > 1) await events.show(views);
      return await work();
    } catch (error) {
      // A macro in the engine's file may read views that the SQL doesn't name.
      const isLacking = views !== ALL_VIEWS && events.isLacking(error);
      if (attempt === TRIES || !(isLacking || events.isReplaced(error))) throw error;
      if (isLacking) views = ALL_VIEWS;
    }
  }
}

/** The most parts, times the usual. */
const FINEST = 16;

/** Does work that compares in parts, and again in more parts if memory is too small for it. */
async function inParts<T>(
  { parts }: Pick<SqlDialect, 'parts'>,
  work: (times: number) => Promise<T>,
  times = 1,
): Promise<T> {
  try {
    return await work(times);
  } catch (error) {
    if (times === FINEST || !parts?.isTooLarge(error)) throw error;
  }
  return inParts({ parts }, work, 2 * times);
}

/**
 * Runs a definition into the table of a plan, and records that. Interrupts don't reach the transaction's rollback.
 *
 * @param times - as many parts as this times the usual
 */
function stage(database: SqlDatabase, request: StageRequest, times: number): Promise<Staged> {
  const { session, tuned } = database;
  const { plan, key, leasedAt, signal } = request;
  return transaction(session, () =>
    interruptible(session, signal, async (obeying) => {
      await dropLeftovers(obeying, request);
      const { plans, plan: tableOf } = tablesOf(session);
      const table = tableOf(plan);
      const staged = await stagePlan({ ...database, session: obeying }, request, table, times);
      for (const statement of tuned.plan(table)) await obeying.run(statement);
      await obeying.run(
        `INSERT INTO ${plans} VALUES (${literal(plan)}, ${literal(key)}, ${leasedAt}, ${literal(JSON.stringify(staged))})`,
      );
      return staged;
    }),
  );
}

function describe(database: SqlDatabase, definition: Definition): Promise<readonly TraitColumn[]> {
  return interruptible(database.session, definition.signal, (session) =>
    traitColumns({ ...database, session }, definition),
  );
}

/** The engine port over any SQL database that has `FULL JOIN`, `FILTER` and transactions around `CREATE TABLE`. */
export function createSqlEngine(database: SqlDatabase): Engine {
  const { session } = database;
  let isPrepared = false;
  /** Plans without values, whose length must be known before reading. */
  const plain = new Set<string>();

  async function prepare(): Promise<void> {
    if (isPrepared || !database.writable) return;
    await createRegistry(session, database.tuned.history(tablesOf(session).history));
    isPrepared = true;
  }

  /** Wraps work that needs our own tables, which are created first. */
  const prepared =
    <A extends readonly unknown[], T>(work: (...given: A) => Promise<T>) =>
    async (...given: A): Promise<T> => {
      await prepare();
      return work(...given);
    };
  const preparedRows = <A extends readonly unknown[], T>(read: (...given: A) => AsyncIterable<T>) =>
    async function* rows(...given: A): AsyncGenerator<T> {
      await prepare();
      yield* read(...given);
    };

  const planned = <T>(request: StageRequest, work: (times: number) => Promise<T>): Promise<T> =>
    overEvents(database, request, () => inParts(database.dialect, work));

  const known = <T extends Staged | null>(staged: T): T => {
    if (staged?.kind === 'audience' && staged.columns.length === 0) plain.add(staged.plan);
    return staged;
  };

  return {
    snapshot: prepared((key) => readSnapshot(database, key)),
    stage: prepared(async (request) => known(await planned(request, (times) => stage(database, request, times)))),
    describe: (definition) => overEvents(database, definition, () => describe(database, definition)),
    preview: (request, sampleSize) => planned(request, (times) => previewPlan(database, request, sampleSize, times)),
    staged: prepared(async (plan) => known(await readStaged(database, plan))),
    changes: (plan, after, limit) => readChanges(session, plan, after, limit, !plain.has(plan)),
    commit: prepared((plan) => transaction(session, () => commitPlan(database, plan))),
    cut: prepared(async (plan, after) => {
      await session.run(`DELETE FROM ${tablesOf(session).plan(plan)} WHERE user_id IS NOT NULL AND n > ${after}`);
    }),
    discard: prepared((plan) => transaction(session, () => dropPlan(session, plan))),
    drop: prepared((key) => transaction(session, () => dropSnapshot(session, key))),
    lookup: prepared((key, users, plan) => lookupUsers(database, key, users, plan)),
    members: preparedRows((key) => readMembers(database, key)),
    memberPage: prepared((key, after, limit) => readMemberPage(database, key, after, limit)),
    runChanges: preparedRows((key, version) => readRunChanges(database, key, version)),
    runChangePage: prepared((key, version, after, limit) => readRunChangePage(database, key, version, after, limit)),
    history: prepared((key, user) => readHistory(database, key, user)),
    everywhere: prepared((keys, user) => lookupEverywhere(database, keys, user)),
    prune: prepared((before) => pruneHistory(database, before)),
    forget: prepared((users, keys = null) => transaction(session, () => forgetUsers(session, users, keys))),
    scrub: prepared(async (scope) => database.scrub(scope === 'all' ? await dataTables(session) : [])),
    ownership: {
      store: prepared(() => readOwner(database)),
      versions: prepared(() => readVersions(database)),
      give: prepared((store, from) => giveTo(session, store, from)),
    },
    readForMove: prepared((key) => readForMove(database, key)),
    writeMoved: prepared((key, moved) => writeMoved(database, key, moved)),
    removeMoved: prepared((key) => removeMoved(database, key)),
    close: () => session.close(),
  };
}
