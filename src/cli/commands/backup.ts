import { resolve } from 'node:path';
import type { Command } from 'commander';
import { systemClock } from '../../clock.ts';
import type { Config, EngineConfig } from '../../config/config.ts';
import type { EngineFile } from '../../store/backup.ts';
import type { Context } from '../context.ts';
import { count, note, print, printJson } from '../terminal.ts';
import { type AppCommandOptions, addAppOptions, withApp } from '../with-app.ts';

const HELP = `
Example:
  $ rollcall backup /backups/2026-11-21 -c rollcall.yaml

It copies the SQLite store and the files of DuckDB engines, so that they belong together, while the service goes on:
messages are taken and delivered meanwhile, syncs wait. Files below the configuration's folder keep their places in
FOLDER. The copy is made in FOLDER.partial, and is FOLDER once it is whole. Postgres has tools of its own.

With --json it prints {"folder","files"}.

Exit codes: 0 done, 1 failed (there is no FOLDER), 2 bad usage, such as a FOLDER that is not empty.`;

export function addBackup(program: Command, context: Context): void {
  addAppOptions(program.command('backup').description('copy store and engine files while the service runs'))
    .argument('<folder>', 'new or empty')
    .addHelpText('after', HELP)
    .action((folder: string, options: AppCommandOptions) => run(resolve(folder), options, context));
}

async function run(folder: string, options: AppCommandOptions, { terminal }: Context): Promise<void> {
  await withApp(options, { terminal }, async ({ app, config }) => {
    const { backup } = await import('../../store/backup.ts');
    const { urls } = config.store;
    const known = [...config.audiences, ...config.traits, ...(await app.store.audiences())].map(({ key }) => key);
    const files = await backup({
      urls,
      engines: await engineFiles(config),
      store: app.store,
      keys: [...new Set(known)],
      base: config.folder,
      folder,
      clock: systemClock,
      onWait: (key) => note(terminal, `Waiting for the sync of ${key} to end.`),
    });
    if (options.json) printJson(terminal, { folder, files });
    else print(terminal, [`${count(files.length, 'file')} in ${folder}:`, ...files].join('\n  '));
    if (urls.some((url) => !url.startsWith('sqlite:'))) note(terminal, 'The Postgres store is not part of it.');
  });
}

type Duckdb = Extract<EngineConfig, { type: 'duckdb' }>;

/** Whoever reads a DuckDB file keeps all other processes from writing to it. */
async function engineFiles({ engines, folder }: Config): Promise<readonly EngineFile[]> {
  const { openEngine } = await import('../../../jobs/engines/open.ts');
  const embedded = Object.values(engines).filter((engine): engine is Duckdb => engine.type === 'duckdb');
  return embedded
    .filter(({ path }) => path !== ':memory:')
    .map((engine) => ({
      path: engine.path,
      async hold(work) {
        const reader = await openEngine(engine, { folder, clock: systemClock, readOnly: true });
        await work().finally(() => reader.close());
      },
    }));
}
