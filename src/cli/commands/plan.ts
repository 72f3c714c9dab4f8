import { type Command, Option } from 'commander';
import type { FunnelStep, Owed, SyncPlan } from '../../../jobs/index.ts';
import { planLine } from '../../admin/lines.ts';
import { RollcallError } from '../../kernel/errors.ts';
import type { AudienceRecord } from '../../store/port.ts';
import { type CliContext, EXIT } from '../context.ts';
import { noteOrphans } from '../note-orphans.ts';
import { hint, nowOption } from '../options.ts';
import { howPaused, isPausedIn } from '../output/paused-since.ts';
import { type Planned, planMarkdown } from '../output/plan-markdown.ts';
import { oddRows, unnamedText } from '../output/run-table.ts';
import { count, inLine, note, print, printError, printJson, type Terminal } from '../output/terminal.ts';
import { truncated } from '../output/text-width.ts';
import { withoutMakingStore } from '../unmade-store.ts';
import { type AppCommandOptions, addAppOptions, withApp } from '../with-app.ts';

interface PlanOptions extends AppCommandOptions {
  readonly now?: number;
  readonly sql?: boolean;
  readonly exitCode?: boolean;
  readonly markdown?: boolean;
}

const HELP = `
Example:
  $ rollcall plan -c rollcall.yaml big_spenders
  $ rollcall plan -c rollcall.yaml big_spenders --sql
  $ rollcall plan -c rollcall.yaml --exit-code                   as a check of a pull request
  $ rollcall plan -c rollcall.yaml --markdown > plan.md          as a comment of it

Nothing is written. For short definitions it counts the people who pass each condition; with --json that is funnel, a
list of {"path","condition","people","left"}. --json has samples as whole bodies; an audience that can't be planned
is {"error":{"code","message","key"}}, and the exit code is 1. --markdown has samples too, at most 60,000 characters in
all. --sql opens nothing; with --json it is {"key","kind",
"engine","sql"}.`;

export function addPlan(program: Command, context: CliContext): void {
  addAppOptions(program.command('plan').description('show what a sync would send; writes nothing'))
    .argument('[key...]', 'audiences and computed traits; all unless given')
    .addOption(nowOption())
    .option('--sql', 'print the SQL instead, also of short definitions; --now fills in $now')
    .addOption(new Option('--markdown', 'print a table for a comment of a pull request').conflicts('json'))
    .option('--exit-code', 'exit with 3 if a sync would be held')
    .addHelpText('after', HELP)
    .action((keys: string[], options: PlanOptions) => (options.sql ? showSql : plan)(keys, options, context));
}

async function showSql(
  keys: readonly string[],
  { config, now, json }: PlanOptions,
  context: CliContext,
): Promise<void> {
  const [{ loadConfig }, { shownSql }] = await Promise.all([
    import('../../config/load.ts'),
    import('../../../jobs/index.ts'),
  ]);
  for (const shown of await shownSql(loadConfig(config), keys, now)) {
    const { key, kind, engine, sql } = shown;
    if (json) printJson(context.terminal, shown);
    else print(context.terminal, `-- ${key} (${kind}, engine ${engine})\n${sql.trim()}\n;\n`);
  }
}

async function plan(
  keys: readonly string[],
  options: PlanOptions,
  { terminal, setExitCode }: CliContext,
): Promise<void> {
  await withApp(options, { terminal, adapt: withoutMakingStore }, async ({ app, config }) => {
    const all = [...config.audiences, ...config.traits].filter(({ paused }) => !paused).map(({ key }) => key);
    const renamed: string[] = [];
    let isHeld = false;
    let hasFailed = false;
    const planned: Planned[] = [];
    for (const key of keys.length > 0 ? keys : all) {
      try {
        const [each] = await app.sync.plan([key], { now: options.now });
        if (!each) continue;
        const paused = howPaused(key, config, each.paused);
        if (options.json) printJson(terminal, { ...each, paused: planLine(each).paused });
        if (options.json && isPausedIn(config, key)) note(terminal, `${key} is ${paused}.`);
        if (options.markdown) planned.push({ plan: each });
        else if (!options.json) print(terminal, describePlan(each, paused, options));
        isHeld ||= each.held !== null || each.unfinished.some(({ state }) => state === 'held');
        if (each.renamedFrom) renamed.push(each.renamedFrom);
      } catch (error) {
        // One failure does not end the others, but Ctrl-C does.
        if (terminal.signal.aborted || !(error instanceof RollcallError) || error.code === 'unknown_audience')
          throw error;
        printError(terminal, { code: error.code, message: error.message, key }, options.json);
        planned.push({ key, failed: `${error.code}: ${error.message}` });
        hasFailed = true;
      }
    }
    if (options.markdown) print(terminal, planMarkdown(planned));
    if (hasFailed) setExitCode(EXIT.failed);
    else if (options.exitCode && isHeld) setExitCode(EXIT.held);
    await noteOrphans(app, terminal, options, renamed);
    if (keys.length === 0) for (const ended of await app.sync.ended()) printEnded(ended, options, terminal);
  });
}

/** Print the destinations that will be notified, once they are back, that an audience has ended. */
function printEnded({ key, kind, lapsed }: AudienceRecord, { json, markdown }: PlanOptions, terminal: Terminal): void {
  if (markdown) return;
  if (json) printJson(terminal, { key, kind, ended: true, away: lapsed });
  else if (lapsed.length > 0) {
    const value = kind === 'trait' ? 'null' : 'false';
    print(terminal, `${key} (${kind}) has ended: ${lapsed.join(', ')} will get ${value} for everybody, once back`);
  }
}

function describePlan(plan: SyncPlan, paused: string | null, options: PlanOptions): string {
  const { key, kind, before, members, entered, exited, changed } = plan;
  const lines = [
    `${key} (${kind}${plan.first ? ', first sync' : ''}): ${before} → ${count(members, 'member')}, ${entered} enter, ${exited} leave` +
      `${changed > 0 ? `, ${changed} change` : ''}`,
    `${count(plan.messages, 'message')} to ${plan.destinations.join(', ') || 'no destination'}, ${count(plan.calls, 'call')} in all`,
  ];
  if (plan.skipped.length > 0) lines.push(`none of them to ${plan.skipped.join(', ')}, by backfill: skip`);
  lines.push(...plan.owed.map((owed) => owedLine(owed, kind)));
  const kept = plan.filtered.filter((name) => !plan.withdrawn.includes(name));
  if (kept.length > 0) lines.push(`nothing to ${kept.join(', ')}, by the filters of the destination`);
  if (plan.away.length > 0) lines.push(`what it missed, once it is back, to ${plan.away.join(', ')}`);
  lines.push(...oddRows(plan));
  if (plan.unnamed.length > 0) lines.push(unnamedText(plan.unnamed));
  if (plan.placeholders.length > 0)
    lines.push(
      `${plan.placeholders.join(', ')} leave, since these ids mean nobody; allowPlaceholders: true keeps them`,
    );
  if (plan.calls > 0 && plan.estimatedMs !== null)
    lines.push(`about ${Math.ceil(plan.estimatedMs / 1000)} s at the rate of earlier calls`);
  else if (plan.calls > 0) lines.push('how long the calls take is unknown: no earlier run made enough of them to tell');
  if (plan.renamedFrom !== null)
    lines.push(`renamed from ${plan.renamedFrom}, which would be retired: ${count(plan.retired, 'member')} told false`);
  if (paused !== null) lines.push(`${paused}: no sync sends this before it is resumed`);
  if (plan.held !== null) lines.push(`it would be held: ${plan.held}`);
  lines.push(...plan.unfinished.map((run) => unfinishedLine(run, options)));
  const samples = plan.sample.map(sampleLine);
  return [...lines, ...(plan.funnel ?? []).map(funnelLine), ...samples].join('\n  ');
}

function funnelLine({ path, condition, people, left }: FunnelStep): string {
  const own = people === null ? 'not counted alone' : count(people, 'person', 'people');
  return `${path} (${condition}): ${own}${left === null || left === people ? '' : `, ${left} with those above`}`;
}

function owedLine({ destination, reason, messages, isDifference }: Owed, kind: SyncPlan['kind']): string {
  const begun = `${count(messages, 'message')} to ${destination}`;
  if (reason === 'backfill') return `${begun}, new since: every member`;
  if (reason === 'withdrawn')
    return `${begun}, which no longer wants it: ${kind === 'trait' ? 'null' : 'false'} for each member`;
  if (isDifference) return `${begun}, back since: what it missed`;
  return `${begun}, back since: everything, and who left, since history does not show what it missed`;
}

function unfinishedLine({ run, state, reason }: SyncPlan['unfinished'][number], options: PlanOptions): string {
  if (state !== 'held') return `the run ${run} is not finished (${state}): a sync goes on with it first`;
  const decide = `${hint(options, `approve ${run}`)}, or ${hint(options, `reject ${run}`)}`;
  return `the run ${run} is held, so that a sync sends nothing: ${reason ?? ''} ${decide}`;
}

/** Characters of a value that are shown. --json has whole bodies. */
const SAMPLE_WIDTH = 80;

function sampleLine(body: string): string {
  const { userId, traits } = JSON.parse(body) as { readonly userId: string; readonly traits: object };
  const values = Object.entries(traits).map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
  return `such as ${inLine(userId)}: ${truncated(values.join(', '), SAMPLE_WIDTH)}`;
}
