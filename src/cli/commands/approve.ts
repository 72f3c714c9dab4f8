import type { Command } from 'commander';
import { syncOutcome } from '../../admin/audit.ts';
import { asUser } from '../as-user.ts';
import { confirm } from '../confirm.ts';
import { type CliContext, EXIT } from '../context.ts';
import { order } from '../order.ts';
import { count, note } from '../output/terminal.ts';
import { type AppCommandOptions, addAppOptions, type OpenedApp } from '../with-app.ts';

const HELP = `
Examples:
  $ rollcall runs --held
  $ rollcall approve mf1x2k3l-9a4c71d0
  $ rollcall approve mf1x2k3l-9a4c71d0 --yes        without a terminal

It sends the plan as it was staged. Exit codes and --json as of rollcall sync --once.`;

interface ApproveOptions extends AppCommandOptions {
  readonly yes?: boolean;
}

export function addApprove(program: Command, context: CliContext): void {
  addAppOptions(program.command('approve').description('approve a held run: its changes are sent'))
    .argument('<run>', 'its id, as rollcall runs shows it')
    .option('-y, --yes', 'do not ask')
    .addHelpText('after', HELP)
    .action((run: string, options: ApproveOptions) => approve(run, options, context));
}

async function approve(run: string, options: ApproveOptions, context: CliContext): Promise<void> {
  await order(options, context, async ({ app }) => {
    if (await mayApprove(run, app, context.terminal, options.yes)) {
      const deed = { action: 'run.approve', target: run };
      return asUser(app, deed, () => app.sync.approve(run), syncOutcome);
    }
    note(context.terminal, 'The run stays held.');
    context.setExitCode(EXIT.failed);
    return null;
  });
}

/** True also for a run that is not held, which the sync then refuses. */
async function mayApprove(
  run: string,
  { store }: OpenedApp['app'],
  terminal: CliContext['terminal'],
  yes?: boolean,
): Promise<boolean> {
  const held = await store.run(run);
  if (held?.state !== 'held') return true;
  const { key, entered, exited, changed } = held;
  const values = changed > 0 ? `, ${count(changed, 'value')} would change` : '';
  return confirm(terminal, `${key}: ${entered} would enter, ${exited} would leave${values}.`, yes);
}
