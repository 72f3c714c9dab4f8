import type { Command } from 'commander';
import type { SyncPlan } from '../../../jobs/index.ts';
import { RollcallError } from '../../errors.ts';
import { type Context, EXIT } from '../context.ts';
import { noteOrphans } from '../note-orphans.ts';
import { nowOption } from '../options.ts';
import { oddRows } from '../show-run.ts';
import { count, note, print, printJson } from '../terminal.ts';
import { type AppCommandOptions, addAppOptions, withApp } from '../with-app.ts';

interface PlanOptions extends AppCommandOptions {
  readonly now?: number;
}

const HELP = `
Example:
  $ rollcall plan -c rollcall.yaml big_spenders

Nothing is written: neither store nor snapshot change.`;

export function addPlan(program: Command, context: Context): void {
  addAppOptions(program.command('plan').description('show what a sync would send; writes nothing'))
    .argument('[key...]', 'audiences and computed traits; all unless given')
    .addOption(nowOption())
    .addHelpText('after', HELP)
    .action((keys: string[], options: PlanOptions) => plan(keys, options, context));
}

async function plan(keys: readonly string[], options: PlanOptions, { terminal, setExitCode }: Context): Promise<void> {
  await withApp(options, { terminal }, async ({ app, config }) => {
    const all = [...config.audiences, ...config.traits].filter(({ paused }) => !paused).map(({ key }) => key);
    const renamed: string[] = [];
    for (const key of keys.length > 0 ? keys : all) {
      try {
        const [each] = await app.sync.plan([key], { now: options.now });
        if (!each) note(terminal, `${key} is paused.`);
        else if (options.json) printJson(terminal, each);
        else print(terminal, describePlan(each));
        if (each?.renamedFrom) renamed.push(each.renamedFrom);
      } catch (error) {
        // What is wrong with one says nothing of the others.
        if (!(error instanceof RollcallError) || error.code === 'unknown_audience') throw error;
        note(terminal, `${error.code}: ${error.message}`);
        setExitCode(EXIT.failed);
      }
    }
    await noteOrphans(app, terminal, renamed);
  });
}

function describePlan(plan: SyncPlan): string {
  const { key, kind, before, members, entered, exited, changed } = plan;
  const lines = [
    `${key} (${kind}${plan.first ? ', first sync' : ''}): ${before} → ${count(members, 'member')}, ${entered} enter, ${exited} leave` +
      `${changed > 0 ? `, ${changed} change` : ''}`,
    `${count(plan.messages, 'message')} to ${plan.destinations.join(', ') || 'no destination'}, ${count(plan.calls, 'call')} in all`,
  ];
  if (plan.newcomers.length > 0) lines.push(`the whole membership to ${plan.newcomers.join(', ')}, new since`);
  lines.push(...oddRows(plan.invalid, plan.duplicates));
  if (plan.calls > 0 && plan.estimatedMs !== null)
    lines.push(`about ${Math.ceil(plan.estimatedMs / 1000)} s at the rate of earlier calls`);
  else if (plan.calls > 0) lines.push('how long the calls take is unknown: none of an earlier run were measured');
  if (plan.renamedFrom !== null)
    lines.push(`renamed from ${plan.renamedFrom}, which would be retired: ${count(plan.retired, 'member')} told false`);
  if (plan.held !== null) lines.push(`a guard would hold it: ${plan.held}`);
  const samples = plan.sample.map((body) => `sample: ${body}`);
  return [...lines, ...samples].join('\n  ');
}
