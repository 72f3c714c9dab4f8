import type { Command } from 'commander';
import type { SyncReport } from '../../../jobs/index.ts';
import { syncOutcome } from '../../admin/audit.ts';
import type { Config } from '../../config/config.ts';
import { RollcallError } from '../../kernel/errors.ts';
import { nothingNamed } from '../../kernel/spelling.ts';
import { asUser } from '../as-user.ts';
import { canAsk, confirm } from '../confirm.ts';
import type { CliContext } from '../context.ts';
import { noteOrphans } from '../note-orphans.ts';
import { newStoreOption, nowOption } from '../options.ts';
import { pausedSince } from '../output/paused-since.ts';
import { createProgress, NO_PROGRESS } from '../output/progress.ts';
import { reportRuns, TOLD } from '../output/report-runs.ts';
import { note } from '../output/terminal.ts';
import { addAppOptions, type OpenedApp, withApp } from '../with-app.ts';
import { renamesOption, type ServeOptions, serve } from './serve.ts';

interface SyncCommandOptions extends ServeOptions {
  readonly once?: boolean;
  readonly now?: number;
  readonly quiet?: boolean;
}

const SYNC_HELP = `
Without --once it is the cron process: it runs the schedules and delivers until you stop it.
With --once it syncs now. It waits until the deliveries of these audiences, earlier runs included, are delivered, dead
or waiting for a retry. Then it prints the runs.

Examples:
  $ rollcall sync -c rollcall.yaml                          run the schedules
  $ rollcall sync -c rollcall.yaml --once                   sync everything now
  $ rollcall sync -c rollcall.yaml big_spenders --once --json
  $ rollcall sync -c rollcall.yaml --once --quiet           for cron: no output on stderr while all is well
  $ rollcall sync -c rollcall.yaml --once --now 1998-03-01  as of another day

An audience with a new name and the SQL of a removed one counts as renamed. After confirmation, the former name is
retired. Without a terminal the run is held for rollcall approve, or continues with --yes.

With --json a run is {"run","key","kind","first","members","entered","exited","invalid","duplicates","held","sent",
"startedAt","ms","action","state","phase","code","reason","changed","before","definitionHash","asOf","deliveries"}:
state is done, held, failed, …; deliveries are {"total","delivered","superseded","dead","waiting"}. A failed run has a
code and a reason.

Exit codes: 0 done, 1 a sync failed, 2 bad usage or configuration, 3 held by a guard, 4 done but not
all delivered.`;

export function addSync(program: Command, context: CliContext): void {
  addAppOptions(program.command('sync').description('compute who entered and left, and send the changes'))
    .argument('[key...]', 'audiences and computed traits; all unless given')
    .option('--once', 'sync now, then exit')
    .option('-q, --quiet', 'with --once: show no progress, only what went wrong')
    .addOption(nowOption())
    .addOption(renamesOption())
    .addOption(newStoreOption())
    .addHelpText('after', SYNC_HELP)
    .action((keys: string[], options: SyncCommandOptions) =>
      options.once ? syncOnce(keys, options, context) : syncForever(keys, options, context),
    );
}

async function syncOnce(keys: readonly string[], options: SyncCommandOptions, context: CliContext): Promise<void> {
  const { terminal } = context;
  const progress = options.quiet ? NO_PROGRESS : createProgress(terminal);
  try {
    await withApp(
      options,
      { terminal, makesStore: true, untold: TOLD, onProgress: progress.onProgress },
      async (opened) => {
        await opened.app.start({ collect: false, schedules: false });
        const time = { now: options.now, renames: options.yes ?? false };
        const deed = { action: 'audience.sync', target: keys.join(' ') || 'all' };
        const run = () => opened.app.sync.run(keys, time);
        const reports = await agreedTo(await asUser(opened.app, deed, run, outcomeOf), opened, context);
        await notePaused(keys, reports, opened, context);
        await reportRuns(reports, opened, progress, options, context);
        await noteOrphans(opened.app, terminal, options);
      },
    );
  } finally {
    progress.stop();
  }
}

async function notePaused(
  keys: readonly string[],
  reports: readonly SyncReport[],
  { app }: OpenedApp,
  { terminal }: CliContext,
): Promise<void> {
  const pauses = await app.store.pausedAudiences();
  const passedOver = (keys.length > 0 ? keys : pauses.map(({ key }) => key)).filter(
    (key) => !reports.some((report) => report.key === key),
  );
  for (const key of passedOver) {
    const pause = pauses.find((each) => each.key === key);
    const resume = `rollcall audiences resume ${key}`;
    note(terminal, `${key} is ${pause ? `${pausedSince(pause)}: ${resume}` : 'paused in the configuration.'}`);
  }
}

const approveAsUser = (app: OpenedApp['app'], run: string) =>
  asUser(app, { action: 'run.approve', target: run }, () => app.sync.approve(run), syncOutcome);

const outcomeOf = (reports: readonly SyncReport[]) =>
  reports.map(syncOutcome).find((outcome) => outcome !== 'done') ?? 'done';

/** Ask about runs that are held for a rename. Without a terminal they stay held. */
async function agreedTo(
  reports: readonly SyncReport[],
  { app }: OpenedApp,
  { terminal }: CliContext,
): Promise<readonly SyncReport[]> {
  if (!canAsk(terminal)) return reports;
  const asked: SyncReport[] = [];
  for (const report of reports) {
    const held = report.runs.find(({ state, renamedFrom }) => state === 'held' && renamedFrom !== undefined);
    const agrees = held && (await confirm(terminal, `${held.key}: ${held.reason}`));
    asked.push(agrees ? await approveAsUser(app, held.id) : report);
  }
  return asked;
}

async function syncForever(keys: readonly string[], options: SyncCommandOptions, context: CliContext): Promise<void> {
  const misplaced = options.now !== undefined ? '--now' : options.quiet ? '--quiet' : null;
  if (misplaced !== null) throw new RollcallError('bad_usage', `${misplaced} goes with --once only.`);
  await serve(options, { collect: false, schedules: true }, context, (config) => pauseOthers(config, keys));
}

function pauseOthers(config: Config, keys: readonly string[]): Config {
  if (keys.length === 0) return config;
  const known = [...config.audiences, ...config.traits].map(({ key }) => key);
  const unknown = keys.filter((key) => !known.includes(key));
  if (unknown.length > 0) {
    throw new RollcallError('unknown_audience', nothingNamed('audience or trait', unknown, known));
  }
  const pause = <T extends { readonly key: string; readonly paused: boolean }>(item: T): T => ({
    ...item,
    paused: item.paused || !keys.includes(item.key),
  });
  return { ...config, audiences: config.audiences.map(pause), traits: config.traits.map(pause) };
}
