import type { Command } from 'commander';
import type { ChangePage, ChangePlace, RunChange, Sync } from '../../../jobs/index.ts';
import { deliveryCounts } from '../../admin/lines.ts';
import { RollcallError } from '../../kernel/errors.ts';
import { given } from '../../kernel/given.ts';
import { nothingNamed } from '../../kernel/spelling.ts';
import type { Run } from '../../store/port.ts';
import type { CliContext } from '../context.ts';
import { placeOption, wholeNumber } from '../options.ts';
import { decision, deliverySummary, runLines, runTable } from '../output/run-table.ts';
import { inLine, note, print, printJson } from '../output/terminal.ts';
import { writeLines } from '../output/write-lines.ts';
import { type AppCommandOptions, addAppOptions, type OpenedApp, withApp } from '../with-app.ts';

interface RunsOptions extends AppCommandOptions {
  readonly limit?: number;
  readonly held?: boolean;
  readonly changes?: boolean;
  readonly after?: string;
}

const HELP = `
Examples:
  $ rollcall runs big_spenders -n 5
  $ rollcall runs --held
  $ rollcall runs mf1x2k3l-9a4c71d0            one run, and what became of its deliveries
  $ rollcall runs mf1x2k3l-9a4c71d0 --changes  who entered, left or changed by it; while it is held, who would
  $ rollcall runs mf1x2k3l-9a4c71d0 --changes --after u17 -n 50  the 50 of them that come after u17

With --json a run is a line as of rollcall sync --once --json; of one run with its deliveries.
A change is {"run","key","change","userId","traits"}: change is entered, exited or changed; traits are those of a
computed trait. Changes are a stream in no order, kept as long as runs are (runs.keep). With -n or --after they are in
the order of the users' ids, as bytes. Exit codes: 0 done, 2 there is no such run or audience.`;

/** The default number of runs shown. */
const LIMIT = 20;
const PAGE = 5_000;

export function addRuns(program: Command, context: CliContext): void {
  addAppOptions(program.command('runs').description('show the sync runs, newest first, or one run'))
    .argument('[key|run]', 'one audience or computed trait, or the id of one run')
    .option('-n, --limit <n>', `at most this many; ${LIMIT} runs, or all changes, unless given`, wholeNumber(1, 10_000))
    .option('--held', 'only those that wait for approval')
    .option('--changes', 'who entered, left or changed by one run')
    .option('--after <id>', 'with --changes: of those after this user, in the order of their ids', placeOption)
    .addHelpText('after', HELP)
    .action((name: string | undefined, options: RunsOptions) => runs(name, options, context));
}

async function runs(name: string | undefined, options: RunsOptions, context: CliContext): Promise<void> {
  const { terminal } = context;
  if (options.after !== undefined && !options.changes)
    throw new RollcallError('bad_usage', '--after goes with --changes only.');
  await withApp(options, { terminal }, async (opened) => {
    const { store } = opened.app;
    const one = name === undefined ? null : await store.run(name);
    if (one && options.held) throw new RollcallError('bad_usage', '--held does not go with the id of a run.');
    if (one)
      return options.changes ? showChanges(one, opened, options, context) : showRun(one, opened, options, context);
    if (options.changes) {
      if (name === undefined) throw new RollcallError('bad_usage', '--changes goes with the id of a run.');
      throw new RollcallError('unknown_run', `There is no run ${name}.`);
    }
    const found = await store.runs({
      limit: options.limit ?? LIMIT,
      ...given({ key: name }),
      ...(options.held ? { states: ['held'] } : {}),
    });
    if (options.json) for (const line of runLines(found)) printJson(terminal, line);
    else if (found.length > 0) print(terminal, runTable(found, terminal));
    if (found.length === 0) await explainNone(name, opened, options, context);
  });
}

async function showRun(run: Run, { app }: OpenedApp, options: RunsOptions, { terminal }: CliContext): Promise<void> {
  const progress = await app.store.runProgress(run.id);
  const [line] = runLines([run]);
  if (options.json) return printJson(terminal, { ...line, deliveries: deliveryCounts(progress) });
  print(terminal, runTable([run], terminal));
  if (run.state === 'held') print(terminal, decision(run, options));
  else print(terminal, deliverySummary(progress, options));
}

async function showChanges(
  run: Run,
  { app }: OpenedApp,
  options: RunsOptions,
  { terminal }: CliContext,
): Promise<void> {
  const { id, key, state } = run;
  let total = 0;
  const show = async (changes: readonly RunChange[]) => {
    total += changes.length;
    const lines = changes.map(({ userId, change, value }) => {
      if (!options.json)
        return [change.padEnd('entered'.length), ...[userId, value ?? []].flat().map(inLine)].join('  ');
      return JSON.stringify({ run: id, key, change, userId, ...(value === null ? {} : { traits: JSON.parse(value) }) });
    });
    await writeLines(terminal, lines);
  };
  const isOrdered = options.limit !== undefined || options.after !== undefined;
  await (isOrdered ? inOrder(app.sync, id, options, show) : app.sync.changes(id, show));
  if (total > 0) return;
  const behind = options.after === undefined ? '' : `, after ${options.after}`;
  note(terminal, `Nobody entered, left or changed by the run ${id}, which is ${state}${behind}.`);
}

async function inOrder(
  sync: Pick<Sync, 'changePage'>,
  run: string,
  { after = '', limit = Number.POSITIVE_INFINITY }: RunsOptions,
  show: (changes: readonly RunChange[]) => Promise<void>,
): Promise<void> {
  const { FIRST_CHANGE } = await import('../../../jobs/index.ts');
  let place: ChangePlace | null = { ...FIRST_CHANGE, user: after };
  for (let left = limit; left > 0 && place; ) {
    const page: ChangePage = await sync.changePage(run, place, Math.min(left, PAGE));
    await show(page.changes);
    left -= page.changes.length;
    place = page.next;
  }
}

/**
 * Explain an empty list. An unknown name is a mistake; an audience that has not run yet is not.
 *
 * @throws RollcallError `unknown_run`
 */
async function explainNone(
  name: string | undefined,
  { app, config }: OpenedApp,
  options: RunsOptions,
  { terminal }: CliContext,
): Promise<void> {
  const configured = [...config.audiences, ...config.traits].map(({ key }) => key);
  const known = [...new Set([...configured, ...(await app.store.audiences()).map(({ key }) => key)])];
  const hasRun = name !== undefined && (await app.store.runs({ key: name, limit: 1 })).length > 0;
  if (name === undefined || known.includes(name) || hasRun) {
    const of = name === undefined ? '' : ` of ${name}`;
    note(terminal, options.held ? `No run${of} is held.` : `There are no runs${of} yet.`);
    return;
  }
  throw new RollcallError('unknown_run', nothingNamed('run, audience or trait', [name], known));
}
