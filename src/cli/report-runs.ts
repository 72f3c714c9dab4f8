import type { SyncReport } from '../../jobs/index.ts';
import type { Run, RunProgress, Store } from '../store/port.ts';
import { type Context, EXIT } from './context.ts';
import { awaitDeliveries, awaitNotices } from './deliveries.ts';
import type { ProgressView } from './progress.ts';
import { deliverySummary, runLines, runTable } from './show-run.ts';
import { count, note, print, printJson } from './terminal.ts';
import type { Opened } from './with-app.ts';

/** Log events that `reportRuns` tells in words of its own. */
export const TOLD: readonly string[] = ['sync_failed', 'sync_held'];

/** Waits for the deliveries of what was run, prints the runs, and sets the exit code. */
export async function reportRuns(
  reports: readonly SyncReport[],
  { app, config }: Opened,
  progress: ProgressView,
  json: boolean | undefined,
  { terminal, setExitCode }: Context,
): Promise<void> {
  const runs = reports.flatMap((report) => report.runs);
  const sent = runs.filter(({ state }) => state === 'done');
  const { store } = app;
  const { destinations } = config;
  const earlier = await unfinishedBefore(store, reports, sent);
  const options = { store, destinations, progress, signal: terminal.signal };
  const deliveries = await awaitDeliveries([...sent, ...earlier.runs], options);
  await awaitNotices(store, terminal.signal);
  progress.stop();
  if (json) for (const line of await runLines(runs)) printJson(terminal, line);
  else if (runs.length > 0) print(terminal, runTable(runs));
  if (deliveries === null) note(terminal, 'Interrupted: a running service sends what is left, or the next start does.');
  else if (!json && runs.length > 0) print(terminal, deliverySummary(deliveries));
  for (const { error } of reports) if (error) note(terminal, `${error.code}: ${error.message}`);
  const held = runs.filter((run) => run.state === 'held');
  for (const { key, id } of held) note(terminal, `${key} is held: rollcall approve ${id}, or rollcall reject ${id}`);
  if (deliveries === null || reports.some(({ error }) => error !== null)) setExitCode(EXIT.failed);
  else if (held.length > 0) setExitCode(EXIT.held);
  else reportUndelivered(deliveries, earlier.dead, { terminal, setExitCode });
}

/** What is dead or waits, and was not dead before this sync. */
function reportUndelivered(progress: RunProgress, deadBefore: number, { terminal, setExitCode }: Context): void {
  const { deliveries, delivered, superseded } = progress;
  const undelivered = deliveries - delivered - superseded - deadBefore;
  if (undelivered <= 0) return;
  note(terminal, `${count(undelivered, 'delivery is', 'deliveries are')} not delivered: rollcall endpoints list`);
  setExitCode(EXIT.undelivered);
}

/** Earlier runs of the same audiences looked at. */
const EARLIER = 100;

/** Runs before these that have something left to deliver, and how much of theirs is dead already. */
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
