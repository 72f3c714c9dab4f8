import type { SyncReport } from '../../../jobs/index.ts';
import { deliveryCounts } from '../../admin/lines.ts';
import { awaitDeliveries } from '../../admin/run-deliveries.ts';
import { systemClock } from '../../kernel/clock.ts';
import { RollcallError } from '../../kernel/errors.ts';
import type { Run, RunProgress, Store } from '../../store/port.ts';
import { awaitRunAlerts } from '../await-alerts.ts';
import { type CliContext, EXIT } from '../context.ts';
import { hint } from '../options.ts';
import type { AppCommandOptions, OpenedApp } from '../with-app.ts';
import type { ProgressView } from './progress.ts';
import { decision, deliverySummary, runLines, runTable } from './run-table.ts';
import { count, note, print, printJson } from './terminal.ts';

/** States of runs that deliver nothing, so that it need not be said. */
const UNSENT: ReadonlySet<Run['state']> = new Set<Run['state']>(['held', 'failed']);

/** Log events that `reportRuns` reports itself. */
export const TOLD: readonly string[] = ['sync_failed', 'sync_held'];

/**
 * Wait for the deliveries of the runs, print the runs, and set the exit code.
 *
 * @throws RollcallError `stopping` when interrupted, after printing the runs
 */
export async function reportRuns(
  reports: readonly SyncReport[],
  { app, config }: OpenedApp,
  progress: ProgressView,
  options: AppCommandOptions,
  context: CliContext,
): Promise<void> {
  const { terminal, setExitCode } = context;
  const { signal } = terminal;
  const { store } = app;
  app.expectNoMore();
  const outcome = await settle(reports, { store, config, alert: () => app.alert(), progress, signal }).catch(
    (error) => {
      // An interruption closes the store.
      if (!signal.aborted) throw error;
      return null;
    },
  );
  progress.stop();
  const runs = outcome?.runs ?? reports.flatMap((report) => report.runs);
  if (options.json) await printLines(runs, reports, outcome?.store ?? null, context);
  else if (runs.length > 0) print(terminal, runTable(runs, terminal));
  if (outcome === null) throw new RollcallError('stopping', 'Interrupted.');
  const held = runs.filter((run) => run.state === 'held');
  const isDelivering = runs.some(({ state }) => !UNSENT.has(state)) || outcome.deliveries.deliveries > 0;
  if (!options.json && isDelivering) print(terminal, deliverySummary(outcome.deliveries, options));
  for (const { error } of reports) if (error) note(terminal, `${error.code}: ${error.message}`);
  for (const run of held) note(terminal, decision(run, options));
  if (reports.some(({ error }) => error !== null)) setExitCode(EXIT.failed);
  else if (held.length > 0) setExitCode(EXIT.held);
  else reportUndelivered(outcome, options, context);
}

interface SyncOutcome {
  /** The runs of the reports, including failed ones. */
  readonly runs: readonly Run[];
  readonly deliveries: RunProgress;
  readonly deadBefore: number;
  readonly store: Store;
}

interface ReportParts {
  readonly store: Store;
  readonly config: OpenedApp['config'];
  readonly alert: () => Promise<void>;
  readonly progress: ProgressView;
  readonly signal: AbortSignal;
}

/** Null if interrupted. */
async function settle(reports: readonly SyncReport[], place: ReportParts): Promise<SyncOutcome | null> {
  const { store, config, alert, progress, signal } = place;
  const runs = await withFailures(reports, store);
  const sent = runs.filter(({ state }) => state === 'done');
  const earlier = await unfinishedBefore(store, reports, sent);
  const ids = [...sent, ...earlier.runs].map(({ id }) => id);
  const deliveries = await awaitDeliveries(ids, {
    ...{ store, clock: systemClock, signal },
    destinations: () => config.destinations,
    onProgress: ({ deliveries, untried }) => progress.show('tried', deliveries - untried, deliveries),
  });
  if (signal.aborted) return null;
  await alert();
  await awaitRunAlerts(store, signal);
  return signal.aborted ? null : { runs, deliveries, deadBefore: earlier.dead, store };
}

/** Add the failed runs, if they were begun: a report has only those that were staged or finished. */
async function withFailures(reports: readonly SyncReport[], store: Store): Promise<readonly Run[]> {
  const all = reports.map(async ({ key, runs, error }) => {
    const [last] = error ? await store.runs({ key, limit: 1 }) : [];
    const isOurs = last !== undefined && last.code === error?.code && !runs.some(({ id }) => id === last.id);
    return isOurs ? [...runs, last] : runs;
  });
  return (await Promise.all(all)).flat();
}

/** Print a line for each run, and for each audience that failed before it had a run. */
async function printLines(
  runs: readonly Run[],
  reports: readonly SyncReport[],
  store: Store | null,
  { terminal }: CliContext,
): Promise<void> {
  const lines = runLines(runs);
  for (const [index, run] of runs.entries()) {
    const progress = store ? deliveryCounts(await store.runProgress(run.id)) : null;
    printJson(terminal, { ...lines[index], deliveries: progress });
  }
  for (const { key, kind, error } of reports) {
    if (!error || runs.some((run) => run.key === key && run.code === error.code)) continue;
    const { code, message: reason } = error;
    printJson(terminal, { run: null, key, kind, state: 'failed', phase: null, code, reason });
  }
}

function reportUndelivered(
  { deliveries, deadBefore }: SyncOutcome,
  options: AppCommandOptions,
  { terminal, setExitCode }: CliContext,
): void {
  const { dead, waiting } = deliveryCounts(deliveries);
  const undelivered = dead + waiting - deadBefore;
  if (undelivered <= 0) return;
  const next = hint(options, waiting > 0 ? 'endpoints list' : 'dead-letters list');
  note(terminal, `${count(undelivered, 'delivery is', 'deliveries are')} not delivered: ${next}`);
  setExitCode(EXIT.undelivered);
}

const EARLIER = 100;

/** Earlier runs with undelivered messages, and the number of their dead deliveries. */
async function unfinishedBefore(store: Store, reports: readonly SyncReport[], sent: readonly Run[]) {
  const known = new Set(sent.map(({ id }) => id));
  const runs: Run[] = [];
  let dead = 0;
  for (const { key } of reports) {
    for (const run of await store.runs({ key, states: ['done'], limit: EARLIER })) {
      if (known.has(run.id)) continue;
      const progress = await store.runProgress(run.id);
      if (progress.deliveries <= progress.delivered + progress.dead + progress.superseded) continue;
      runs.push(run);
      dead += progress.dead;
    }
  }
  return { runs, dead };
}
