import { createLive } from '../live/live.ts';
import { configured, type Subjects } from '../run/audience-subjects.ts';
import { nextTryAt } from '../run/retry-times.ts';
import { NO_PATIENCE, type Runner, type SyncOptions } from '../run/runner.ts';
import { createCatchUps } from './catch-up.ts';
import type { Orders } from './orders.ts';
import type { Pauses } from './pauses.ts';
import { createSchedules } from './schedule.ts';

interface BackgroundParts {
  readonly options: SyncOptions;
  readonly runner: Runner;
  readonly orders: Orders;
  readonly subjects: Subjects;
  readonly pauses: Pauses;
}

/** Automatic work: schedules, live audiences, and destinations that are back. */
export interface Background {
  /** @param renames - if true, renamed audiences end under their former names without approval */
  start(renames: boolean): Promise<void>;
  stop(): Promise<void>;
  /** Computes live audiences once, up to the newest events. */
  computeLive(): Promise<void>;
}

export function createBackground({ options, runner, orders, subjects, pauses }: BackgroundParts): Background {
  const { store, clock, log, config, accept, onLiveStep = () => {} } = options;
  const parts = { store, clock, log, config };
  let renames = false;

  const schedules = createSchedules({
    ...parts,
    lastRunAt: async (key) => {
      const record = await store.audience(key);
      return record?.endedAt === null ? record.lastRunAt : null;
    },
    unfinished: (key) => store.runs({ key, states: ['staged', 'sending', 'committed'], limit: 1 }),
    nextTryAt: (key, tick) => nextTryAt(store, key, tick, clock.now()),
    run: async (computation, tick) => {
      if (await pauses.passesOver(computation.key, true)) return true;
      const order = { action: 'sync', tick, renames, patience: NO_PATIENCE } as const;
      const { error } = await orders.order(configured(computation, config()), order);
      return error?.code !== 'run_in_progress';
    },
    overdue: (key, message) => runner.runLog.overdue(key, message),
  });

  const live = createLive({
    ...{ ...parts, accept, onStep: onLiveStep },
    check: runner.generations.check,
    ask: async (key, work) => runner.engines.aside((await subjects.findWhereItLies(key)).engine, true, work),
    settle: async (key) => {
      // A paused live audience is computed but not sent.
      if ((await pauses.of(key)) !== null) return;
      await orders.order(await subjects.find(key), { action: 'sync', renames, patience: NO_PATIENCE });
    },
  });

  const catchUps = createCatchUps({
    ...parts,
    settle: async ({ key }) => {
      if ((await pauses.of(key)) !== null) return true;
      const order = { action: 'settle', patience: NO_PATIENCE } as const;
      const { error } = await orders.order(await subjects.find(key), order);
      return error === null || error.code === 'run_in_progress';
    },
  });

  return {
    async start(agreed) {
      renames = agreed;
      await schedules.start();
      catchUps.start();
      await live.start();
    },
    async stop() {
      schedules.stop();
      catchUps.stop();
      await live.stop();
    },
    computeLive: live.once,
  };
}
