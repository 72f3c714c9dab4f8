import type { Command } from 'commander';
import type { SyncReport } from '../../../jobs/index.ts';
import type { Context } from '../context.ts';
import { nowOption, wholeNumber } from '../options.ts';
import { createProgress } from '../progress.ts';
import { reportRuns, TOLD } from '../report-runs.ts';
import { historyLines, runTable } from '../show-run.ts';
import { note, print, printJson } from '../terminal.ts';
import { type AppCommandOptions, addAppOptions, type Opened, withApp } from '../with-app.ts';

interface RunsOptions extends AppCommandOptions {
  readonly limit: number;
  readonly held?: boolean;
}

interface ResyncOptions extends AppCommandOptions {
  readonly now?: number;
}

export function addRuns(program: Command, context: Context): void {
  addAppOptions(program.command('runs').description('show the sync runs, newest first'))
    .argument('[key]', 'one audience or computed trait')
    .option('-n, --limit <n>', 'at most so many', wholeNumber(1, 10_000), 20)
    .option('--held', 'only those that wait for approval')
    .addHelpText('after', '\nExample:\n  $ rollcall runs big_spenders -n 5')
    .action((key: string | undefined, options: RunsOptions) => list(key, options, context));
  addAppOptions(program.command('approve').description('let a run go on that a guard held'))
    .argument('<run>', 'its id, as rollcall runs shows it')
    .action((run: string, options: AppCommandOptions) => order(options, context, ({ app }) => app.sync.approve(run)));
  addAppOptions(program.command('reject').description('throw a held run away; the snapshot stays as it is'))
    .argument('<run>', 'its id, as rollcall runs shows it')
    .action((run: string, options: AppCommandOptions) => order(options, context, ({ app }) => app.sync.reject(run)));
  addAppOptions(program.command('retire').description('send false to every member and forget the audience'))
    .argument('<key>', 'audience or computed trait, also one gone from the configuration')
    .addHelpText(
      'after',
      '\nTake the audience out of the configuration too, or pause it: its next sync is a first one.',
    )
    .action((key: string, options: AppCommandOptions) => retire(key, options, context));
  addAppOptions(program.command('resync').description('send the whole membership again, leavers included'))
    .argument('<key>', 'audience or computed trait')
    .addOption(nowOption())
    .action((key: string, options: ResyncOptions) =>
      order(options, context, ({ app }) => app.sync.resync(key, { now: options.now })),
    );
}

async function list(key: string | undefined, options: RunsOptions, { terminal }: Context): Promise<void> {
  await withApp(options, { terminal }, async ({ app }) => {
    const runs = await app.store.runs({
      limit: options.limit,
      ...(key === undefined ? {} : { key }),
      ...(options.held ? { states: ['held'] } : {}),
    });
    if (options.json) for (const line of await historyLines(runs)) printJson(terminal, line);
    else if (runs.length > 0) print(terminal, runTable(runs));
    else note(terminal, 'There are no runs.');
  });
}

async function retire(key: string, options: AppCommandOptions, context: Context): Promise<void> {
  await order(options, context, async ({ app, config }) => {
    const report = await app.sync.retire(key);
    const isConfigured = [...config.audiences, ...config.traits].some((each) => each.key === key && !each.paused);
    if (isConfigured && !report.error)
      note(context.terminal, `${key} is still configured: its next sync is a first one.`);
    return report;
  });
}

/** Does one thing to one audience, sends what comes of it, and reports it as a sync does. */
async function order(
  options: AppCommandOptions,
  context: Context,
  work: (opened: Opened) => Promise<SyncReport>,
): Promise<void> {
  const { terminal } = context;
  const progress = createProgress(terminal);
  try {
    await withApp(options, { terminal, untold: TOLD, onProgress: progress.onProgress }, async (opened) => {
      await opened.app.start({ collect: false, schedules: false });
      await reportRuns([await work(opened)], opened, progress, options.json, context);
    });
  } finally {
    progress.stop();
  }
}
