import { mayReadLog } from '../../../src/store/events/views.ts';
import type { Definition, Engine } from '../port.ts';
import { commitPlan } from './commit.ts';
import {
  pruneHistory,
  readHistory,
  readMemberPage,
  readMembers,
  readRunChangePage,
  readRunChanges,
} from './history.ts';
import { literal } from './plan-query.ts';
import { interruptible, type SqlDatabase, transaction } from './session.ts';
import { previewPlan, readChanges, stagePlan, traitColumns } from './stage.ts';
import {
  createRegistry,
  dataTables,
  dropLeftovers,
  dropPlan,
  dropSnapshot,
  HISTORY,
  planTable,
  readSnapshot,
  readStaged,
} from './tables.ts';
import { forgetUsers, lookupUsers } from './users.ts';

/** Tries of SQL that reads files of the log, which are replaced now and then. */
const TRIES = 5;

/** Does the work of a definition with the event log as it is, if its SQL may read it. */
async function overEvents<T>({ events }: SqlDatabase, { sql }: Definition, work: () => Promise<T>): Promise<T> {
  if (!events || !mayReadLog(sql)) return work();
  for (let attempt = 1; ; attempt += 1) {
    await events.show();
    try {
      return await work();
    } catch (error) {
      if (attempt === TRIES || !events.isReplaced(error)) throw error;
    }
  }
}

/** The engine port over any SQL database that has `FULL JOIN` and transactions around `CREATE TABLE`. */
export function createSqlEngine(database: SqlDatabase): Engine {
  const { session } = database;
  let prepared = false;

  async function prepare(): Promise<void> {
    if (prepared || !database.writable) return;
    await createRegistry(session, database.tuned.history(HISTORY));
    prepared = true;
  }

  return {
    async snapshot(key) {
      await prepare();
      return readSnapshot(database, key);
    },
    async stage(request) {
      await prepare();
      // Interrupted within its transaction: what rolls it back is not.
      return overEvents(database, request, () =>
        transaction(session, () =>
          interruptible(session, request.signal, async (obeying) => {
            await dropLeftovers(obeying, request);
            const table = planTable(request.plan);
            const staged = await stagePlan({ ...database, session: obeying }, request, table);
            for (const statement of database.tuned.plan(table)) await obeying.run(statement);
            await obeying.run(
              `INSERT INTO rollcall.plans VALUES (${literal(request.plan)}, ${literal(request.key)}, ${request.leasedAt}, ${literal(JSON.stringify(staged))})`,
            );
            return staged;
          }),
        ),
      );
    },
    describe: (definition) =>
      overEvents(database, definition, () =>
        interruptible(session, definition.signal, (obeying) =>
          traitColumns({ ...database, session: obeying }, definition),
        ),
      ),
    preview: (request, sampleSize) => overEvents(database, request, () => previewPlan(database, request, sampleSize)),
    async staged(plan) {
      await prepare();
      return readStaged(database, plan);
    },
    changes: (plan, after, limit) => readChanges(session, plan, after, limit),
    async commit(plan) {
      await prepare();
      await transaction(session, () => commitPlan(database, plan));
    },
    async cut(plan, after) {
      await prepare();
      await session.run(`DELETE FROM ${planTable(plan)} WHERE user_id IS NOT NULL AND n > ${after}`);
    },
    async discard(plan) {
      await prepare();
      await transaction(session, () => dropPlan(session, plan));
    },
    async drop(key) {
      await prepare();
      await transaction(session, () => dropSnapshot(session, key));
    },
    async lookup(key, users, plan) {
      await prepare();
      return lookupUsers(database, key, users, plan);
    },
    async *members(key) {
      await prepare();
      yield* readMembers(database, key);
    },
    async memberPage(key, after, limit) {
      await prepare();
      return readMemberPage(database, key, after, limit);
    },
    async *runChanges(key, version) {
      await prepare();
      yield* readRunChanges(database, key, version);
    },
    async runChangePage(key, version, after, limit) {
      await prepare();
      return readRunChangePage(database, key, version, after, limit);
    },
    async history(key, user) {
      await prepare();
      return readHistory(database, key, user);
    },
    async prune(before) {
      await prepare();
      await pruneHistory(database, before);
    },
    async forget(users, keys = null) {
      await prepare();
      await transaction(session, () => forgetUsers(session, users, keys));
    },
    async scrub(scope) {
      await prepare();
      await database.scrub(scope === 'all' ? await dataTables(session) : []);
    },
    close: () => session.close(),
  };
}
