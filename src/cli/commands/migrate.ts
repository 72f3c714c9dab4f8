import type { Command } from 'commander';
import { systemClock } from '../../clock.ts';
import type { Context } from '../context.ts';
import { configOption, jsonOption } from '../options.ts';
import { print, printJson } from '../terminal.ts';

interface MigrateOptions {
  readonly config: string;
  readonly json?: boolean;
}

const HELP = `
Example:
  $ rollcall migrate -c rollcall.yaml

SQLite does it by itself at every start; with Postgres a service refuses to start until it is done. Safe to run again,
and by several at once.`;

export function addMigrate(program: Command, context: Context): void {
  program
    .command('migrate')
    .description("bring the store's tables to this version")
    .addOption(configOption())
    .addOption(jsonOption())
    .addHelpText('after', HELP)
    .action((options: MigrateOptions) => migrate(options, context));
}

async function migrate({ config: file, json }: MigrateOptions, { terminal }: Context): Promise<void> {
  const { loadConfig } = await import('../../config/load.ts');
  const { urls, maxQueued } = loadConfig(file).store;
  for (const url of urls) {
    const applied = await migrateOne(url, maxQueued);
    if (json) printJson(terminal, { applied });
    else print(terminal, applied.length > 0 ? `Applied: ${applied.join(', ')}.` : 'The tables are up to date.');
  }
}

/** The versions applied by it; SQLite's are applied by opening it. */
async function migrateOne(url: string, maxQueued: number): Promise<readonly number[]> {
  if (!url.startsWith('sqlite:')) {
    const { migratePostgres } = await import('../../store/postgres/migrate.ts');
    return migratePostgres(url);
  }
  const { openStore } = await import('../../store/open.ts');
  const store = await openStore({ urls: [url], maxQueued }, systemClock);
  await store.close();
  return [];
}
