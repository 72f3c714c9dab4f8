import * as z from 'zod';
import type { PlanTime, Sync, SyncPlan, SyncReport, SyncTime } from '../../../jobs/index.ts';
import { RollcallError } from '../../kernel/errors.ts';
import type { Logger } from '../../kernel/log.ts';
import type { RunProgress } from '../../store/port.ts';
import { syncOutcome } from '../audit.ts';
import { deliveryCounts } from '../lines.ts';
import { runLine } from '../run-line.ts';
import type { AskedRequest } from './route.ts';
import { deliveries, run } from './run-shapes.ts';

export interface Syncing
  extends Pick<Sync, 'audiences' | 'memberPage' | 'changePage' | 'why' | 'person' | 'standings' | 'tryOut' | 'names'> {
  run(keys: readonly string[], time?: SyncTime): Promise<readonly SyncReport[]>;
  /** Throws as `run` would, without running anything. */
  check(keys: readonly string[], time: SyncTime): void;
  plan(keys: readonly string[], time?: PlanTime): Promise<readonly SyncPlan[]>;
  resync(key: string, time?: SyncTime): Promise<SyncReport>;
  retire(key: string, time?: SyncTime): Promise<SyncReport>;
  approve(run: string): Promise<SyncReport>;
  reject(run: string): Promise<SyncReport>;
  /** Resolves once every delivery of these runs is delivered, dead, superseded or waiting for a retry. */
  delivered(runs: readonly string[]): Promise<RunProgress>;
  readonly log: Logger;
}

export const waiting = z.object({
  wait: z
    .enum(['true', 'false'])
    .default('false')
    .transform((text) => text === 'true')
    .describe('Answer once the run is over and everything that it sent is delivered, dead or waiting for a retry.'),
});

export const report = z.object({
  status: z
    .enum(['ordered', 'done', 'undelivered'])
    .describe(
      'ordered: it begins when its turn comes, and nobody waits for it. undelivered: something is dead, or waits for a retry.',
    ),
  runs: z.array(run),
  deliveries: deliveries.nullable(),
});

/**
 * Answer with the outcome of an order, or that it was begun. For clients that wait, done is 200, held is 409, and a failure
 * has the status of its code.
 */
export async function answerReport(
  sync: Syncing,
  work: () => Promise<SyncReport>,
  wait: boolean,
  { reply, goesOn }: Pick<AskedRequest<unknown, unknown, unknown>, 'reply' | 'goesOn'>,
): Promise<z.input<typeof report>> {
  if (!wait) {
    // The outcome is in the log and in the list of runs.
    const outcome = work().then(syncOutcome, (error) => {
      sync.log.error({ err: error }, 'The requested sync failed');
      return error instanceof RollcallError ? error.code : 'internal_error';
    });
    goesOn(outcome);
    reply.code(202);
    return { status: 'ordered', runs: [], deliveries: null };
  }
  const { runs, error, key } = await work();
  if (error) throw error;
  const last = runs.at(-1);
  if (last?.state === 'held') {
    throw new RollcallError('run_held', `The run ${last.id} of ${key} is held: ${last.reason ?? 'a person decides'}`);
  }
  const counts = deliveryCounts(await sync.delivered(runs.map(({ id }) => id)));
  const status = counts.waiting + counts.dead > 0 ? 'undelivered' : 'done';
  return { status, runs: runs.map(runLine), deliveries: counts };
}
