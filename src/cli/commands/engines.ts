import type { Command } from 'commander';
import { RollcallError } from '../../kernel/errors.ts';
import { nothingNamed } from '../../kernel/spelling.ts';
import { asUser } from '../as-user.ts';
import { confirm } from '../confirm.ts';
import { type CliContext, EXIT } from '../context.ts';
import { note, print, printJson } from '../output/terminal.ts';
import { type AppCommandOptions, addAppOptions, withApp } from '../with-app.ts';

const HELP = `
Example:
  $ rollcall engines adopt warehouse

For an engine that fails with snapshot_foreign although the other store has ended, for instance after --new-store. If
the other store is still in use, it fails from then on. Give this one a schema of its own instead (\`schema: NAME\`).
Audiences whose versions differ then fail with snapshot_moved or snapshot_lost until \`rollcall resync KEY\`.

With --json it prints {"engine","store","from"}: the ids of this store and of the one that had the snapshots.`;

interface AdoptOptions extends AppCommandOptions {
  readonly yes?: boolean;
}

export function addEngines(program: Command, context: CliContext): void {
  const command = program.command('engines').description('decide which store the snapshots in an engine belong to');
  addAppOptions(command.command('adopt').description('take over the snapshots of another store'))
    .argument('<name>', 'an engine of the configuration')
    .option('-y, --yes', 'do not ask')
    .addHelpText('after', HELP)
    .action((name: string, options: AdoptOptions) => adopt(name, options, context));
}

async function adopt(name: string, options: AdoptOptions, { terminal, setExitCode }: CliContext): Promise<void> {
  await withApp(options, { terminal, makesStore: true }, async ({ app, config }) => {
    const names = Object.keys(config.engines);
    if (!names.includes(name)) throw new RollcallError('bad_usage', nothingNamed('engine', [name], names));
    const { id } = app.store;
    const from = await app.sync.owner(name);
    const whose = from === null ? 'a store without a name' : `the store ${from}`;
    const question = `The snapshots of ${name} belong to ${whose}, which fails from then on if it is still in use.`;
    if (from !== id && !(await confirm(terminal, question, options.yes))) {
      note(terminal, 'Nothing was adopted.');
      setExitCode(EXIT.failed);
      return;
    }
    if (from !== id) {
      await asUser(app, { action: 'engine.adopt', target: name }, () => app.sync.adopt(name, from));
      const now = await app.sync.owner(name);
      if (now !== id)
        throw new RollcallError('snapshot_foreign', `The store ${now} has adopted ${name} in the meantime.`);
    }
    if (options.json) printJson(terminal, { engine: name, store: id, from });
    else print(terminal, `The snapshots of ${name} belong to this store (${id}). Look at rollcall plan.`);
  });
}
