import { resolve } from 'node:path';
import type { Command } from 'commander';
import type { Config, StoreConfig } from '../../config/config.ts';
import { redactUrl } from '../../destination.ts';
import { systemClock } from '../../kernel/clock.ts';
import { RollcallError } from '../../kernel/errors.ts';
import type { CliContext } from '../context.ts';
import { refuseFormer } from '../former-store.ts';
import { configOption, jsonOption, newStoreOption } from '../options.ts';
import { withProgress } from '../output/progress.ts';
import { count, note, print, printJson } from '../output/terminal.ts';
import { forgetLostStore, isUnmade } from '../unmade-store.ts';
import { letGroupRead } from '../with-app.ts';

interface MigrateOptions {
  readonly config: string;
  readonly json?: boolean;
  readonly from?: string;
  readonly to?: string;
  readonly restored?: boolean;
  readonly copy?: boolean;
  readonly withoutEventLog?: boolean;
  readonly newStore?: boolean;
}

const HELP = `
Without --from and --to it brings the tables of the configured store to this version. SQLite does that automatically
at every start; with Postgres a service refuses to start until it is done. Safe to run again, and by several at once.
It makes no tables where engines or the event log show that a store was lost, unless --new-store is given.

With --from and --to it moves a SQLite store, with all its data, into an empty Postgres database. No configuration
is read. Stop every process of the store first: it refuses while one has the file open. It moves everything or
nothing, and then renames the file to PATH.moved. If it was interrupted, run it again. Then set "store" in the
configuration, and start.

With --restored it also readies a Postgres store that was restored from a dump or a snapshot: ids continue 2^40
higher, so that none given out since comes again, leases of the lost processes end, and deletions that the dump lacks
are repeated in the event log. Stop every process of the lost store first, and run it once, before a process
starts.

With --copy it gives a copy of a store an id of its own, to run while the original does, for instance as a staging
environment. Run it once, before a process starts. Engines then need their own places too (\`schema: NAME\`), or
copied ones are taken over with \`rollcall engines adopt NAME\`. What was pending in the copy is sent by both.

Examples:
  $ rollcall migrate -c rollcall.yaml
  $ rollcall migrate --from sqlite:./rollcall.db --to postgres://rollcall@db/rollcall     with PGPASSWORD set
  $ rollcall migrate --restored -c rollcall.yaml
  $ rollcall migrate --copy -c staging.yaml

With --json it prints {"applied":[VERSION…]}, {"restored":true} or {"copy":ID}. For a move it prints {"from","to",
"file","rows":{TABLE:ROWS…}}; "rows" is null if an earlier move had copied everything, and only had to rename the file.

Exit codes: 0 done, 1 failed (nothing was changed), 2 bad usage, which includes a store that is in use or not empty.`;

export function addMigrate(program: Command, context: CliContext): void {
  program
    .command('migrate')
    .description("bring the store's tables to this version, or move it to Postgres")
    .addOption(configOption())
    .addOption(jsonOption())
    .option('--from <url>', 'move this store, sqlite:PATH')
    .option('--to <url>', 'into this empty one, postgres://USER:PASSWORD@HOST/DATABASE')
    .option('--restored', 'go on with a Postgres store that was restored from a dump')
    .option('--copy', 'give a copy of a store an id of its own')
    .option('--without-event-log', 'move although logged events stay behind, in their files')
    .addOption(newStoreOption())
    .addHelpText('after', HELP)
    .action((options: MigrateOptions) => run(options, context));
}

async function run({ from, to, ...options }: MigrateOptions, context: CliContext): Promise<void> {
  const isMove = from !== undefined || to !== undefined;
  if ([isMove, options.restored, options.copy].filter(Boolean).length > 1)
    throw new RollcallError('bad_usage', '--restored, --copy, and --from with --to do not go together.');
  if (options.withoutEventLog && !(from?.startsWith('sqlite:') && to !== undefined))
    throw new RollcallError('bad_usage', '--without-event-log goes with --from sqlite:PATH and --to only.');
  if (options.copy) return copied(options, context);
  if (!isMove) return options.restored ? restored(options, context) : migrate(options, context);
  if (from === undefined || to === undefined) throw new RollcallError('bad_usage', '--from and --to go together.');
  if (!from.startsWith('sqlite:') || !/^postgres(ql)?:/.test(to))
    throw new RollcallError('bad_usage', 'A store can only move from sqlite:… to postgres://….');
  return move(from, to, options, context);
}

const WAITING = 'Others use the tables, such as a pg_dump. Waiting until they are done.';

async function migrate({ config: file, json, newStore }: MigrateOptions, { terminal }: CliContext): Promise<void> {
  const { loadConfig } = await import('../../config/load.ts');
  const config = loadConfig(file);
  letGroupRead(config);
  if (newStore) forgetLostStore(config);
  else if (await isNew(config)) await refuseFormer(config, 'rollcall migrate');
  const applied = await applyMigrations(config.store, () => note(terminal, WAITING));
  if (json) printJson(terminal, { applied });
  else print(terminal, applied.length > 0 ? `Applied: ${applied.join(', ')}.` : 'The tables are up to date.');
}

async function isNew(config: Config): Promise<boolean> {
  const { hasTables } = await import('../../store/postgres/migrate.ts');
  const { url } = config.store;
  return url.startsWith('sqlite:') ? isUnmade(config) : !(await hasTables(url));
}

/** Apply migrations and return their versions. Opening an SQLite store applies them. */
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

/** Names for the rows of tables that people know. Other tables hold bookkeeping. */
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
  { terminal }: CliContext,
): Promise<void> {
  const { moveStore } = await import('../../store/copy/move.ts');
  const path = `sqlite:${resolve(from.slice('sqlite:'.length))}`;
  const moved = await withProgress(terminal, (onProgress) =>
    moveStore({ from: path, to, clock: systemClock, withoutEventLog, onProgress }),
  );
  if (json) printJson(terminal, { from: path, to: redactUrl(to), ...moved });
  else print(terminal, describe(moved.rows, moved.file, redactUrl(to)));
}

async function restored({ config: file, json }: MigrateOptions, { terminal }: CliContext): Promise<void> {
  const { loadConfig } = await import('../../config/load.ts');
  const { url } = loadConfig(file).store;
  if (url.startsWith('sqlite:'))
    throw new RollcallError('bad_usage', 'Copies of a SQLite store, made by rollcall backup, need no --restored.');
  const { goOnRestored } = await import('../../store/copy/restored-postgres.ts');
  await goOnRestored(url, () => note(terminal, WAITING));
  if (json) printJson(terminal, { restored: true });
  else print(terminal, 'The ids of the restored store go on 2^40 higher. Look at rollcall plan, and start.');
}

async function copied({ config: file, json }: MigrateOptions, { terminal }: CliContext): Promise<void> {
  const { loadConfig } = await import('../../config/load.ts');
  const { renewId } = await import('../../store/copy/copied.ts');
  const config = loadConfig(file);
  letGroupRead(config);
  const id = await renewId(config.store.url);
  if (json) printJson(terminal, { copy: id });
  else print(terminal, `The copy is the store ${id} now. Look at rollcall doctor, and start.`);
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
