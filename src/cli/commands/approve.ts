import type { Command } from 'commander';
import type { Context } from '../context.ts';
import { order } from '../order.ts';
import { type AppCommandOptions, addAppOptions } from '../with-app.ts';

const HELP = `
Example:
  $ rollcall runs --held
  $ rollcall approve mf1x2k3l-9a4c71d0

It sends the plan as it was staged. Exit codes and --json as of rollcall sync --once.`;

export function addApprove(program: Command, context: Context): void {
  addAppOptions(program.command('approve').description('let a run go on that a guard or an expectation holds'))
    .argument('<run>', 'its id, as rollcall runs shows it')
    .addHelpText('after', HELP)
    .action((run: string, options: AppCommandOptions) => order(options, context, ({ app }) => app.sync.approve(run)));
}
