import type { Command } from 'commander';
import { nothingNamed } from '../../spelling.ts';
import type { Run } from '../../store/port.ts';
import { type Context, EXIT } from '../context.ts';
import { wholeNumber } from '../options.ts';
import { deliveryCounts, deliverySummary, runLines, runTable } from '../show-run.ts';
import { note, print, printError, printJson } from '../terminal.ts';
import { type AppCommandOptions, addAppOptions, type Opened, withApp } from '../with-app.ts';

interface RunsOptions extends AppCommandOptions {
  readonly limit: number;
  readonly held?: boolean;
}

const HELP = `
Examples:
  $ rollcall runs big_spenders -n 5
  $ rollcall runs --held
  $ rollcall runs mf1x2k3l-9a4c71d0         one run, and what became of its deliveries

With --json a run is a line as of rollcall sync --once --json; of one run with its deliveries.
Exit codes: 0 done, 1 there is no such run or audience.`;

export function addRuns(program: Command, context: Context): void {
  addAppOptions(program.command('runs').description('show the sync runs, newest first, or one run'))
    .argument('[key|run]', 'one audience or computed trait, or the id of one run')
    .option('-n, --limit <n>', 'at most so many', wholeNumber(1, 10_000), 20)
    .option('--held', 'only those that wait for approval')
    .addHelpText('after', HELP)
    .action((name: string | undefined, options: RunsOptions) => runs(name, options, context));
}

async function runs(name: string | undefined, options: RunsOptions, context: Context): Promise<void> {
  const { terminal } = context;
  await withApp(options, { terminal }, async (opened) => {
    const { store } = opened.app;
    const one = name === undefined ? null : await store.run(name);
    if (one) return showRun(one, opened, options, context);
    const found = await store.runs({
      limit: options.limit,
      ...(name === undefined ? {} : { key: name }),
      ...(options.held ? { states: ['held'] } : {}),
    });
    if (options.json) for (const line of await runLines(found)) printJson(terminal, line);
    else if (found.length > 0) print(terminal, await runTable(found, terminal));
    if (found.length === 0) await explainNone(name, opened, options, context);
  });
}

async function showRun(run: Run, { app }: Opened, options: RunsOptions, { terminal }: Context): Promise<void> {
  const progress = await app.store.runProgress(run.id);
  const [line] = await runLines([run]);
  if (options.json) return printJson(terminal, { ...line, deliveries: deliveryCounts(progress) });
  print(terminal, await runTable([run], terminal));
  print(terminal, deliverySummary(progress, options));
}

/** A name that nothing has is a mistake; an audience that has not run yet is none. */
async function explainNone(
  name: string | undefined,
  { app, config }: Opened,
  { held, json }: RunsOptions,
  { terminal, setExitCode }: Context,
): Promise<void> {
  const configured = [...config.audiences, ...config.traits].map(({ key }) => key);
  const known = [...new Set([...configured, ...(await app.store.audiences()).map(({ key }) => key)])];
  const hasRun = name !== undefined && (await app.store.runs({ key: name, limit: 1 })).length > 0;
  if (name === undefined || known.includes(name) || hasRun) {
    const of = name === undefined ? '' : ` of ${name}`;
    note(terminal, held ? `No run${of} is held.` : `There are no runs${of} yet.`);
    return;
  }
  const message = nothingNamed('run, audience or trait', [name], known);
  printError(terminal, { code: 'unknown_run', message }, json);
  setExitCode(EXIT.failed);
}
