import type { Command } from 'commander';
import type { Config } from '../../config/config.ts';
import { RollcallError } from '../../errors.ts';
import { nothingNamed } from '../../spelling.ts';
import type { Context } from '../context.ts';
import { noteOrphans } from '../note-orphans.ts';
import { nowOption } from '../options.ts';
import { createProgress } from '../progress.ts';
import { reportRuns, TOLD } from '../report-runs.ts';
import { note } from '../terminal.ts';
import { type AppCommandOptions, addAppOptions, withApp } from '../with-app.ts';
import { serve } from './serve.ts';

interface SyncOptions extends AppCommandOptions {
  readonly once?: boolean;
  readonly now?: number;
}

const SYNC_HELP = `
Without --once it is the cron process: it runs the schedules and delivers until it is told to end.
With --once it syncs now, waits until the deliveries of these audiences (earlier runs included) are delivered, dead or
waiting for a retry, and prints the runs.

Examples:
  $ rollcall sync -c rollcall.yaml                          run the schedules
  $ rollcall sync -c rollcall.yaml --once                   sync everything now
  $ rollcall sync -c rollcall.yaml big_spenders --once --json
  $ rollcall sync -c rollcall.yaml --once --now 1998-03-01  as of another day

With --json a run is {"run","key","kind","first","members","entered","exited","invalid","duplicates","held","sent",
"startedAt","ms","action","state","code","reason","changed","before","definitionHash","asOf","deliveries"}: state is done, held,
failed, …; deliveries are {"total","delivered","superseded","dead","waiting"}. What failed has a code and a reason.

Exit codes: 0 done, 1 a sync failed, 2 bad usage or configuration, 3 held by a guard, 4 done but not
all delivered.`;

export function addSync(program: Command, context: Context): void {
  addAppOptions(program.command('sync').description('compute who entered and left, and send the changes'))
    .argument('[key...]', 'audiences and computed traits; all unless given')
    .option('--once', 'sync now, then exit')
    .addOption(nowOption())
    .addHelpText('after', SYNC_HELP)
    .action((keys: string[], options: SyncOptions) =>
      options.once ? syncOnce(keys, options, context) : syncForever(keys, options, context),
    );
}

async function syncOnce(keys: readonly string[], options: SyncOptions, context: Context): Promise<void> {
  const { terminal } = context;
  const progress = createProgress(terminal);
  try {
    await withApp(options, { terminal, untold: TOLD, onProgress: progress.onProgress }, async (opened) => {
      await opened.app.start({ collect: false, schedules: false });
      const reports = await opened.app.sync.run(keys, { now: options.now });
      for (const key of keys) if (!reports.some((report) => report.key === key)) note(terminal, `${key} is paused.`);
      await reportRuns(reports, opened, progress, options, context);
      await noteOrphans(opened.app, terminal, options);
    });
  } finally {
    progress.stop();
  }
}

async function syncForever(keys: readonly string[], options: SyncOptions, context: Context): Promise<void> {
  if (options.now !== undefined) throw new RollcallError('bad_usage', '--now goes with --once only.');
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
