import type { Command } from 'commander';
import type { Context } from '../context.ts';
import { order } from '../order.ts';
import { note } from '../terminal.ts';
import { type AppCommandOptions, addAppOptions } from '../with-app.ts';

const HELP = `
Example:
  $ rollcall retire big_spenders

Take the audience out of the configuration too, or pause it: its next sync is a first one.`;

export function addRetire(program: Command, context: Context): void {
  addAppOptions(program.command('retire').description('send false to every member and forget the audience'))
    .argument('<key>', 'audience or computed trait, also one gone from the configuration')
    .addHelpText('after', HELP)
    .action((key: string, options: AppCommandOptions) => retire(key, options, context));
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
