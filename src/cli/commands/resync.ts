import type { Command } from 'commander';
import { syncOutcome } from '../../admin/audit.ts';
import { asUser } from '../as-user.ts';
import type { CliContext } from '../context.ts';
import { nowOption } from '../options.ts';
import { order } from '../order.ts';
import { type AppCommandOptions, addAppOptions } from '../with-app.ts';

const HELP = `
Example:
  $ rollcall resync big_spenders

Every member gets true again, and every former member false. Exit codes and --json as of rollcall sync --once.`;

interface ResyncOptions extends AppCommandOptions {
  readonly now?: number;
}

export function addResync(program: Command, context: CliContext): void {
  addAppOptions(program.command('resync').description('send the whole membership again, leavers included'))
    .argument('<key>', 'audience or computed trait')
    .addOption(nowOption())
    .addHelpText('after', HELP)
    .action((key: string, options: ResyncOptions) =>
      order(options, context, ({ app }) => {
        const work = () => app.sync.resync(key, { now: options.now });
        return asUser(app, { action: 'audience.resync', target: key }, work, syncOutcome);
      }),
    );
}
