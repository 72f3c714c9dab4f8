import { resolve } from 'node:path';
import type { Command } from 'commander';
import type { Config, EngineConfig } from '../../config/config.ts';
import { systemClock } from '../../kernel/clock.ts';
import type { EngineFile } from '../../store/copy/backup.ts';
import type { CliContext } from '../context.ts';
import { note, print, printJson } from '../output/terminal.ts';
import { type AppCommandOptions, addAppOptions, withApp } from '../with-app.ts';

const HELP = `
Example:
  $ rollcall backup /backups/2026-11-21 -c rollcall.yaml

It copies a SQLite store and the files of DuckDB engines as of one moment. The service keeps collecting and delivering
messages, and syncs wait. Files below the configuration's folder keep their places in FOLDER. The copy is
made in FOLDER.partial, and becomes FOLDER once it is whole. FOLDER may be a link, but not a mount point: name a
folder in it.

To restore, put the files back in their places. Back a Postgres store up with pg_dump or snapshots of the
database, and run rollcall migrate --restored after a restore.

With --json it prints {"folder","files"}; the name of a folder ends with /.

Exit codes: 0 done, 1 failed (there is no FOLDER), 2 bad usage, such as a FOLDER that is not empty.`;

export function addBackup(program: Command, context: CliContext): void {
  addAppOptions(program.command('backup').description('copy store and engine files while the service runs'))
    .argument('<folder>', 'new or empty')
    .addHelpText('after', HELP)
    .action((folder: string, options: AppCommandOptions) => run(resolve(folder), options, context));
}

async function run(folder: string, options: AppCommandOptions, { terminal }: CliContext): Promise<void> {
  await withApp(options, { terminal }, async ({ app, config }) => {
    const { backup } = await import('../../store/copy/backup.ts');
    const { filesOf } = await import('../../store/events/open-files.ts');
    const known = [...config.audiences, ...config.traits, ...(await app.store.audiences())].map(({ key }) => key);
    const onWait = (what: string) => note(terminal, what);
    const engines = await engineFiles(config, onWait);
    const files = await backup({
      url: config.store.url,
      engines,
      eventLog: config.eventLog && filesOf(config.eventLog),
      store: app.store,
      keys: [...new Set(known)],
      base: config.folder,
      folder,
      clock: systemClock,
      onWait: (what) => onWait(`Waiting for ${what} to end.`),
    });
    if (options.json) printJson(terminal, { folder, files });
    else print(terminal, [`In ${folder}:`, ...files].join('\n  '));
  });
}

/** Milliseconds to wait for the service to close a file. Nothing keeps it open but people's queries: syncs wait. */
const PATIENCE = 60_000;

type Duckdb = Extract<EngineConfig, { type: 'duckdb' }>;

/** The engines' DuckDB files. Whoever reads such a file keeps all other processes from writing to it. */
async function engineFiles(
  { engines, folder }: Config,
  onWait: (message: string) => void,
): Promise<readonly EngineFile[]> {
  const { openEngine } = await import('../../../jobs/engines/open.ts');
  const embedded = Object.values(engines).filter((engine): engine is Duckdb => engine.type === 'duckdb');
  return embedded
    .filter(({ path }) => path !== ':memory:')
    .map((engine) => ({
      path: engine.path,
      async hold(work) {
        const file = { sharesReading: true, patience: PATIENCE, onWait };
        const reader = await openEngine(engine, { folder, clock: systemClock, readOnly: true, file });
        await work().finally(() => reader.close());
      },
    }));
}
