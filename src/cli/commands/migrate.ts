import { resolve } from 'node:path';
import type { Command } from 'commander';
import type { StoreConfig } from '../../config/config.ts';
import { redactUrl } from '../../destination.ts';
import { systemClock } from '../../kernel/clock.ts';
import { RollcallError } from '../../kernel/errors.ts';
import type { Context } from '../context.ts';
import { configOption, jsonOption } from '../options.ts';
import { withProgress } from '../output/progress.ts';
import { count, note, print, printJson } from '../output/terminal.ts';

interface MigrateOptions {
  readonly config: string;
  readonly json?: boolean;
  readonly from?: string;
  readonly to?: string;
  readonly withoutEventLog?: boolean;
}

const HELP = `
Without --from and --to it brings the tables of the configured store to this version. SQLite does that by itself at
every start; with Postgres a service refuses to start until it is done. Safe to run again, and by several at once.

With --from and --to it moves a SQLite store, with all that it knows, into an empty Postgres database. No configuration
is read. Stop every process of the store first: it refuses while one has the file open. It moves all or nothing, and then
puts the file aside as PATH.moved. If it was interrupted, run it again. Then set "store" in the configuration, and start.

With the path of a database's copy, made by rollcall backup, it restores the copy into an empty Postgres database. It restores
all or nothing, and leaves the copy as it is. Stop every process of the lost store first, or both send what was pending.

Examples:
  $ rollcall migrate -c rollcall.yaml
  $ rollcall migrate --from sqlite:./rollcall.db --to "$STORE_URL"     with STORE_URL=postgres://…
  $ rollcall migrate --from /backups/2026-11-21/store.postgres --to "$STORE_URL"

With --json it prints {"applied":[VERSION…]}. For a move it prints {"from","to","file","rows":{TABLE:ROWS…}}; "rows" is null if an
earlier move had copied everything, and only had to put the file aside. For a restore it prints {"from","to","madeAt","rows":{TABLE:ROWS…}}.

Exit codes: 0 done, 1 failed (nothing was changed), 2 bad usage, which includes a store that is in use or not empty.`;

export function addMigrate(program: Command, context: Context): void {
  program
    .command('migrate')
    .description("bring the store's tables to this version, or move or restore it to Postgres")
    .addOption(configOption())
    .addOption(jsonOption())
    .option('--from <url|path>', 'move this store, sqlite:PATH, or restore the copy at this path')
    .option('--to <url>', 'into this empty one, postgres://USER:PASSWORD@HOST/DATABASE')
    .option('--without-event-log', 'move although logged events stay behind, in their files')
    .addHelpText('after', HELP)
    .action((options: MigrateOptions) => run(options, context));
}

async function run({ from, to, ...options }: MigrateOptions, context: Context): Promise<void> {
  if (options.withoutEventLog && !(from?.startsWith('sqlite:') && to !== undefined))
    throw new RollcallError('bad_usage', '--without-event-log goes with --from sqlite:PATH and --to only.');
  if (from !== undefined && to !== undefined) {
    return from.startsWith('sqlite:') ? move(from, to, options, context) : restore(from, to, options, context);
  }
  if (from === undefined && to === undefined) return migrate(options, context);
  throw new RollcallError('bad_usage', '--from and --to go together.');
}

async function migrate({ config: file, json }: MigrateOptions, { terminal }: Context): Promise<void> {
  const { loadConfig } = await import('../../config/load.ts');
  const waiting = () => note(terminal, 'Others use the tables, such as a backup. Waiting until they are done.');
  const applied = await applyMigrations(loadConfig(file).store, waiting);
  if (json) printJson(terminal, { applied });
  else print(terminal, applied.length > 0 ? `Applied: ${applied.join(', ')}.` : 'The tables are up to date.');
}

/** The versions applied by it; SQLite's are applied by opening it. */
async function applyMigrations(config: StoreConfig, onWait: () => void): Promise<readonly number[]> {
  const { url } = config;
  if (!url.startsWith('sqlite:')) {
    const { migratePostgres } = await import('../../store/postgres/migrate.ts');
    return migratePostgres(url, onWait);
  }
  const { openStore } = await import('../../store/open.ts');
  const store = await openStore(config, systemClock);
  await store.close();
  return [];
}

/** People's words for the rows of a table; other tables hold bookkeeping. */
const ROWS: Readonly<Record<string, readonly [one: string, many: string]>> = {
  delivery: ['pending delivery', 'pending deliveries'],
  dead_letter: ['dead letter', 'dead letters'],
  seen: ['message id', 'message ids'],
  attempt: ['attempt', 'attempts'],
  run: ['run', 'runs'],
  audience: ['audience or trait', 'audiences and traits'],
  regulation: ['deletion request', 'deletion requests'],
  suppression: ['suppressed user', 'suppressed users'],
};

type Output = Pick<MigrateOptions, 'json' | 'withoutEventLog'>;

async function move(
  from: string,
  to: string,
  { json, withoutEventLog = false }: Output,
  { terminal }: Context,
): Promise<void> {
  const { moveStore } = await import('../../store/copy/move.ts');
  const path = `sqlite:${resolve(from.slice('sqlite:'.length))}`;
  const moved = await withProgress(terminal, (onProgress) =>
    moveStore({ from: path, to, clock: systemClock, withoutEventLog, onProgress }),
  );
  if (json) printJson(terminal, { from: path, to: redactUrl(to), ...moved });
  else print(terminal, describe(moved.rows, moved.file, redactUrl(to)));
}

async function restore(from: string, to: string, { json }: Output, { terminal }: Context): Promise<void> {
  if (/^\w+:\/\//.test(from) || !/^postgres(ql)?:/.test(to)) {
    const message = 'A store moves from sqlite:… to postgres://…, or is restored there from the path of a copy.';
    throw new RollcallError('bad_usage', message);
  }
  const { restorePostgres } = await import('../../store/copy/restore-postgres.ts');
  const folder = resolve(from);
  const { signal } = terminal;
  const restored = await withProgress(terminal, (onProgress) => restorePostgres({ folder, to, signal, onProgress }));
  if (json) return printJson(terminal, { from: folder, to: redactUrl(to), ...restored });
  const { madeAt, rows } = restored;
  const next = 'Set "store" in the configuration, and start.';
  print(terminal, [`Restored to ${redactUrl(to)}, as it was at ${madeAt}:`, ...rowsOf(rows), next].join('\n'));
}

function describe(rows: Readonly<Record<string, number>> | null, file: string, to: string): string {
  if (rows === null) return `The store was in ${to} already; its file is now ${file}.`;
  return [
    `Moved to ${to}:`,
    ...rowsOf(rows),
    `The SQLite file is now ${file}. Set "store" in the configuration, and start.`,
  ].join('\n');
}

const rowsOf = (rows: Readonly<Record<string, number>>) =>
  Object.entries(ROWS).map(([table, [one, many]]) => `  ${count(rows[table] ?? 0, one, many)}`);
