import type { Command } from 'commander';
import { syncOutcome } from '../../admin/audit.ts';
import { asUser } from '../as-user.ts';
import type { CliContext } from '../context.ts';
import { order } from '../order.ts';
import { type AppCommandOptions, addAppOptions } from '../with-app.ts';

const HELP = `
Example:
  $ rollcall reject mf1x2k3l-9a4c71d0

Nothing is sent; the next sync computes again.`;

export function addReject(program: Command, context: CliContext): void {
  addAppOptions(
    program.command('reject').description('reject a held run: nothing is sent, and the snapshot stays as it is'),
  )
    .argument('<run>', 'its id, as rollcall runs shows it')
    .addHelpText('after', HELP)
    .action((run: string, options: AppCommandOptions) =>
      order(options, context, ({ app }) =>
        asUser(app, { action: 'run.reject', target: run }, () => app.sync.reject(run), syncOutcome),
      ),
    );
}
