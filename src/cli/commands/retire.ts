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
  $ rollcall retire big_spenders
  $ rollcall retire big_spenders --yes        without a terminal

Remove the audience from the configuration too, or pause it: its next sync is a first one. A destination that is away
is notified once it is back.`;

interface RetireOptions extends AppCommandOptions {
  readonly yes?: boolean;
}

export function addRetire(program: Command, context: CliContext): void {
  addAppOptions(program.command('retire').description('send false to every member and forget the audience'))
    .argument('<key>', 'audience or computed trait, also one gone from the configuration')
    .option('-y, --yes', 'do not ask')
    .addHelpText('after', HELP)
    .action((key: string, options: RetireOptions) => retire(key, options, context));
}

async function retire(key: string, options: RetireOptions, context: CliContext): Promise<void> {
  const { terminal, setExitCode } = context;
  const work = async ({ app }: OpenedApp) => {
    if (await mayRetire(key, app, terminal, options.yes)) {
      return asUser(app, { action: 'audience.retire', target: key }, () => app.sync.retire(key), syncOutcome);
    }
    note(terminal, 'Nothing was retired.');
    setExitCode(EXIT.failed);
    return null;
  };
  await order(options, context, work, ({ error }, { config }) => {
    const isConfigured = [...config.audiences, ...config.traits].some((each) => each.key === key && !each.paused);
    if (isConfigured && !error) note(terminal, `${key} is still configured: its next sync is a first one.`);
  });
}

/** True without asking if no destination would be notified. */
async function mayRetire(
  key: string,
  { store }: OpenedApp['app'],
  terminal: CliContext['terminal'],
  yes?: boolean,
): Promise<boolean> {
  const record = await store.audience(key);
  if (!record || record.version === 0 || record.endedAt !== null) return true;
  const [last] = await store.runs({ key, states: ['done'], limit: 1 });
  const who = last ? count(last.members, 'member') : 'every member';
  const value = record.kind === 'trait' ? 'null' : 'false';
  return confirm(terminal, `${who} of ${key} would be told ${value}.`, yes);
}
