import type { Command } from 'commander';
import type { AudienceStatus } from '../../../jobs/index.ts';
import { audienceLine } from '../../admin/lines.ts';
import { RollcallError } from '../../kernel/errors.ts';
import { nothingNamed } from '../../kernel/spelling.ts';
import { withoutName } from '../../kernel/without-name.ts';
import { asUser, cliUser } from '../as-user.ts';
import type { CliContext } from '../context.ts';
import { hint } from '../options.ts';
import { duration } from '../output/duration.ts';
import { isPausedIn } from '../output/paused-since.ts';
import { stateColours } from '../output/state-colours.ts';
import { table, withOwners } from '../output/table.ts';
import { note, print, printJson, type Terminal } from '../output/terminal.ts';
import { type AppCommandOptions, addAppOptions, withApp } from '../with-app.ts';

const HELP = `
Examples:
  $ rollcall audiences -c rollcall.yaml
  $ rollcall audiences big_spenders

States:
  ok
  new         it has not run yet
  held        its last run waits for approval
  failed      its last run failed
  unfinished  a run is in progress, or continues with the next sync
  paused      it does not run
  orphaned    no longer in the configuration, while destinations still have its members

The trend is the size after each of the last runs, or in each of the last hours of a live one.

With --json an audience is {"key","kind","engine","source","state","members","trend","lastRun","schedule","nextRunAt",
"overdueSince","paused","live","todo"}: lastRun is {"run","state","action","startedAt","ms","code","reason"}. paused
is null or {"since","by"}: a person paused it. todo is null or says what a person has to do: {"do":"decide","run",
"reason"}, {"do":"repair","run","code","reason","since"} or {"do":"retire"}. since is when the first of the failures
in a row began. live is null or {"lag","progress","ids","due","hold"}: milliseconds behind, from 0 to 1 while it is
computed over the log, ids kept, people who may change by time alone, and why nothing is sent. description, owner and
labels are there if the configuration has them.`;

const PAUSE_HELP = `
Example:
  $ rollcall audiences pause big_spenders

Schedules and \`rollcall sync\` skip it and say so, until \`rollcall audiences resume\`. The configuration and the members
do not change. Messages already sent are delivered, and a held run can be approved.`;

const RESUME_HELP = `
Example:
  $ rollcall audiences resume big_spenders

It runs at its next tick; \`rollcall sync big_spenders --once\` runs it at once. An audience with \`paused: true\` in the
configuration stays paused.`;

export function addAudiences(program: Command, context: CliContext): void {
  const command = program.command('audiences').description('show each audience and trait, pause and resume them');
  addAppOptions(
    command
      .command('list', { isDefault: true })
      .description('show each audience and trait: size, trend, next run, what needs a person'),
  )
    .argument('[key...]', 'audiences and computed traits; all unless given')
    .addHelpText('after', HELP)
    .action((keys: string[], options: AppCommandOptions) => audiences(keys, options, context));
  for (const [verb, description, help] of [
    ['pause', 'stop syncing them until they are resumed', PAUSE_HELP],
    ['resume', 'sync them again', RESUME_HELP],
  ] as const) {
    addAppOptions(command.command(verb).description(description))
      .argument('<key...>', 'audiences and computed traits')
      .addHelpText('after', help)
      .action((keys: string[], options: AppCommandOptions) => pauseOrResume(verb, keys, options, context));
  }
}

async function pauseOrResume(
  verb: 'pause' | 'resume',
  keys: readonly string[],
  options: AppCommandOptions,
  { terminal }: CliContext,
): Promise<void> {
  await withApp(options, { terminal, makesStore: true }, async ({ app, config }) => {
    const known = [...config.audiences, ...config.traits].map(({ key }) => key);
    const unknown = keys.filter((key) => !known.includes(key));
    if (unknown.length > 0) {
      throw new RollcallError('unknown_audience', nothingNamed('audience or trait', unknown, known));
    }
    const { store } = app;
    for (const key of new Set(keys)) {
      const at = store.time.toWall(store.time.now());
      await asUser(app, { action: `audience.${verb}`, target: key }, () =>
        verb === 'pause' ? store.pauseAudience({ key, at, by: cliUser() }) : store.resumeAudience(key),
      );
      const stays = isPausedIn(config, key);
      if (options.json) printJson(terminal, { key, paused: verb === 'pause' || stays });
      else if (verb === 'pause') print(terminal, `${key} is paused.`);
      else if (stays) print(terminal, `${key} stays paused: the configuration has paused: true.`);
      else print(terminal, `${key} is no longer paused.`);
    }
  });
}

async function audiences(keys: readonly string[], options: AppCommandOptions, { terminal }: CliContext): Promise<void> {
  await withApp(options, { terminal }, async ({ app }) => {
    const statuses = chosen(keys, await app.sync.audiences());
    if (options.json) for (const status of statuses) printJson(terminal, audienceLine(status));
    else if (statuses.length === 0) note(terminal, 'The configuration has no audiences or traits.');
    else print(terminal, statusTable(statuses, app.store.time.toWall(app.store.time.now()), terminal));
    if (options.json) return;
    for (const status of statuses) {
      const todo = todoLine(status, options);
      if (todo !== null) note(terminal, todo);
    }
  });
}

/** @throws RollcallError `unknown_audience` */
function chosen(keys: readonly string[], all: readonly AudienceStatus[]): readonly AudienceStatus[] {
  const known = all.map(({ key }) => key);
  const unknown = keys.filter((key) => !known.includes(key));
  if (unknown.length === 0) return all.filter(({ key }) => keys.length === 0 || keys.includes(key));
  const message = nothingNamed('audience or trait', unknown, known);
  const verb = nothingNamed('audience or trait', unknown.slice(0, 1), ['pause', 'resume']);
  throw new RollcallError('unknown_audience', !message.endsWith('?') && verb.endsWith('?') ? verb : message);
}

function statusTable(statuses: readonly AudienceStatus[], now: number, terminal: Terminal): string {
  const colour = stateColours(terminal);
  const header = ['audience', 'kind', 'state', 'members', 'trend', 'last run', 'next run'];
  const rows = statuses.map(
    ({ key, kind, state, members, trend, lastRun, nextRunAt, schedule, live, overdueSince }) => [
      key,
      kind,
      colour(state),
      members === null ? '-' : String(members),
      sparkline(trend),
      lastRun === null ? '-' : `${duration(Math.max(0, now - lastRun.startedAt))} ago`,
      live !== null
        ? liveText(live)
        : overdueSince !== null
          ? colour('overdue')
          : nextRunAt === null
            ? schedule === null
              ? 'by hand'
              : '-'
            : `in ${duration(Math.max(0, nextRunAt - now))}`,
    ],
  );
  return table(...withOwners(header, rows, statuses), { width: terminal.stdout.columns, flexible: ['audience'] });
}

function liveText({ lag, progress, hold }: NonNullable<AudienceStatus['live']>): string {
  if (progress !== null) return `live, ${lag === null ? 'building' : 'rebuilding'} (${Math.floor(100 * progress)} %)`;
  if (lag === null) return 'live, not computed yet';
  if (hold !== null) return 'live, on hold';
  return lag < 1_000 ? 'live' : `live, ${duration(lag)} behind`;
}

const BARS = '▁▂▃▄▅▆▇█';

/** Sizes as bars, scaled from the smallest to the largest. */
export function sparkline(sizes: readonly number[]): string {
  const [least, most] = [Math.min(...sizes), Math.max(...sizes)];
  const step = (most - least) / (BARS.length - 1);
  return sizes.map((size) => BARS[step === 0 ? 3 : Math.round((size - least) / step)]).join('');
}

function todoLine({ key, todo, overdueSince, live }: AudienceStatus, options: AppCommandOptions): string | null {
  if (todo === null) {
    if (overdueSince === null || live !== null) return null;
    return `${key} is overdue: it was due at ${new Date(overdueSince).toISOString()}, and nothing began. Is the service running?`;
  }
  if (todo.do === 'retire') return `${key} is no longer configured: ${hint(options, `retire ${key}`)} ends it`;
  if (todo.do === 'repair')
    return `${key} has failed since ${new Date(todo.since).toISOString()} with ${todo.code}: ${withoutName(key, todo.reason)}`;
  const decide = `${hint(options, `approve ${todo.run}`)}, or ${hint(options, `reject ${todo.run}`)}`;
  return `${key} is held: ${todo.reason} ${decide}`;
}
