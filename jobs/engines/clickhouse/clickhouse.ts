import type { ClickhouseConfig } from '../../../src/config/config.ts';
import type { Clock } from '../../../src/kernel/clock.ts';
import type { Engine, Snapshot, StageRequest } from '../port.ts';
import { commitPlan } from './commit.ts';
import { examineClickhouse } from './examine.ts';
import { lookupUsers, readHistory, readMemberPage, readMembers, readRunChangePage, readRunChanges } from './readers.ts';
import { dropSnapshot, forgetUsers, prune, scrub } from './removing.ts';
import { type ClickHouse, openSession } from './session.ts';
import { previewPlan, readChanges, stageInto, traitColumns } from './stage.ts';
import {
  createRegistry,
  dropLeftovers,
  dropPlan,
  giveTo,
  hasRegistry,
  readOwner,
  readPlan,
  readPlans,
  readSnapshot,
  readVersions,
  tablesOf,
  writePlan,
} from './tables.ts';
import { literal } from './types.ts';

interface ClickhouseOptions {
  /** The configuration's folder, in which the client is installed. */
  readonly folder: string;
  readonly clock: Pick<Clock, 'token'>;
  readonly readOnly?: boolean;
  readonly timeout?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Definitions and comparisons run in the customer's ClickHouse, over the customer's tables. Snapshots are rows with
 * versions, in a database of Rollcall's own.
 *
 * @throws RollcallError `engine_unreachable`
 */
export async function openClickhouse(
  config: ClickhouseConfig,
  { folder, clock, timeout, readOnly = false, signal }: ClickhouseOptions,
): Promise<Engine> {
  const until = readOnly ? signal : undefined;
  const session = await openSession(config, { folder, timeout, signal: until, token: () => clock.token(12) });
  let prepared: Promise<boolean> | null = null;
  /** Resolves to true if our tables exist. A read-only engine doesn't create them. */
  const prepare = () => {
    prepared ??= readOnly ? hasRegistry(session) : createRegistry(session).then(() => true);
    return prepared;
  };
  await prepare().catch(async (error) => {
    await session.close();
    throw error;
  });
  const snapshot = async (key: string): Promise<Snapshot> => {
    const { version, members } = (await prepare()) ? await readSnapshot(session, key) : { version: 0, members: 0 };
    return { version, members };
  };
  return {
    snapshot,
    async stage(request) {
      await prepare();
      return stage(session, request);
    },
    describe: (definition) => traitColumns(session, definition),
    preview: async (request, sampleSize) => previewPlan(session, request, await snapshot(request.key), sampleSize),
    staged: async (plan) => ((await prepare()) ? ((await readPlan(session, plan))?.staged ?? null) : null),
    changes: (plan, after, limit) => readChanges(session, plan, after, limit),
    commit: (plan) => commitPlan(session, plan),
    cut: (plan, after) =>
      session.run(`DELETE FROM ${tablesOf(session).plan(plan)} WHERE user_id IS NOT NULL AND n > ${after}`),
    async discard(plan) {
      for (const row of await readPlans(session, `plan = ${literal(plan)}`)) await dropPlan(session, row);
    },
    drop: (key) => dropSnapshot(session, key),
    async lookup(key, users, plan) {
      return (await prepare()) ? lookupUsers(session, key, users, plan) : new Map();
    },
    async *members(key) {
      if (await prepare()) yield* readMembers(session, key);
    },
    async memberPage(key, after, limit) {
      return (await prepare()) ? readMemberPage(session, key, after, limit) : { userIds: [], values: [], since: [] };
    },
    async *runChanges(key, version) {
      if (await prepare()) yield* readRunChanges(session, key, version);
    },
    async runChangePage(key, version, after, limit) {
      return (await prepare()) ? readRunChangePage(session, key, version, after, limit) : [];
    },
    history: async (key, user) => ((await prepare()) ? readHistory(session, key, user) : []),
    prune: (before) => prune(session, before),
    forget: (users, keys = null) => forgetUsers(session, users, keys),
    scrub: (scope) => scrub(session, scope),
    examine: () => examineClickhouse(session),
    ownership: {
      store: () => readOwner(session),
      versions: async () => ((await prepare()) ? readVersions(session) : new Map()),
      give: (store, from) => giveTo(session, store, from),
    },
    close: () => session.close(),
  };
}

/** Completes the plan's row last: until then there is no plan, and the next run removes what was begun. */
async function stage(session: ClickHouse, request: StageRequest) {
  const { plan, key, leasedAt } = request;
  await dropLeftovers(session, key, leasedAt);
  const begun = { plan, key, leasedAt, staged: null };
  await writePlan(session, begun);
  try {
    const staged = await stageInto(session, request, tablesOf(session).plan(plan));
    await writePlan(session, { ...begun, staged });
    return staged;
  } catch (error) {
    await dropPlan(session, begun).catch(() => {});
    throw error;
  }
}
