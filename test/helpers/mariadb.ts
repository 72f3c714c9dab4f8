import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, rmSync } from 'node:fs';
import { chown, mkdtemp } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import mysql from 'mysql2/promise';
import { freePort } from './free-port.ts';
import { until } from './until.ts';

const run = promisify(execFile);
const FOLDERS = ['/usr/sbin', '/usr/bin', '/usr/local/bin'];
const found = (name: string) => FOLDERS.map((folder) => join(folder, name)).find((path) => existsSync(path));
const [SERVER, INSTALL] = [found('mariadbd'), found('mariadb-install-db')];
/** What the latter runs. Debian has moved it to the package of the client. */
const DEFAULTS = found('my_print_defaults');
/** MariaDB refuses to run as root: then it runs as `nobody`. */
const user = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};

/** A MariaDB of this machine on 127.0.0.1. */
export interface MariadbServer {
  readonly pid: number;
  readonly port: number;
  /** An empty database of its own; its URLs, of an administrator and of a user who may only select. */
  database(): Promise<{ readonly admin: string; readonly reader: string }>;
  /** Ends it as `kill -9` would, and starts it again. */
  crash(): Promise<void>;
  stop(): Promise<void>;
}

export const NO_MARIADB =
  SERVER && INSTALL && DEFAULTS
    ? false
    : 'MariaDB is not installed here: apt-get install mariadb-server-core mariadb-client-core';

let databases = 0;

/** @param settings - options of the server */
export async function startMariadb(settings: readonly string[] = []): Promise<MariadbServer> {
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-mariadb-'));
  if (user.uid !== undefined) await chown(folder, user.uid, user.gid);
  const data = join(folder, 'data');
  const install = ['--no-defaults', '--auth-root-authentication-method=normal', '--skip-test-db', `--datadir=${data}`];
  await run(INSTALL ?? '', install, { ...user, cwd: folder });
  const port = await freePort();
  const launch = async (): Promise<ChildProcess> => {
    const options = ['--no-defaults', `--datadir=${data}`, `--socket=${join(folder, 's')}`, `--port=${port}`];
    const quiet = ['--bind-address=127.0.0.1', `--pid-file=${join(folder, 'pid')}`, `--tmpdir=${folder}`];
    const fast = ['--skip-log-bin', '--innodb-flush-log-at-trx-commit=0', '--innodb-log-file-size=16M'];
    const started = spawn(SERVER ?? '', [...options, ...quiet, ...fast, ...settings], {
      ...user,
      cwd: folder,
      stdio: 'ignore',
    });
    started.unref();
    await until(async () => {
      const socket = connect({ port, host: '127.0.0.1' });
      return Promise.race([once(socket, 'data').then(() => true), once(socket, 'close').then(() => false)])
        .catch(() => false)
        .finally(() => socket.destroy());
    });
    return started;
  };
  let server = await launch();
  const remove = () => {
    server.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  };
  process.once('exit', remove);
  const end = async () => {
    server.ref();
    const exited = once(server, 'exit');
    server.kill('SIGKILL');
    await exited;
  };
  return {
    get pid() {
      return server.pid as number;
    },
    port,
    async database() {
      databases += 1;
      const name = `test_${databases}`;
      const admin = await mysql.createConnection({ host: '127.0.0.1', port, user: 'root', multipleStatements: true });
      await admin.query(`CREATE DATABASE ${name} CHARACTER SET utf8mb4;
        CREATE OR REPLACE USER reader_${databases}@'%' IDENTIFIED BY 'secret';
        GRANT SELECT ON ${name}.* TO reader_${databases}@'%'`);
      await admin.end();
      const at = `127.0.0.1:${port}/${name}`;
      return { admin: `mysql://root@${at}`, reader: `mysql://reader_${databases}:secret@${at}` };
    },
    async crash() {
      await end();
      server = await launch();
    },
    async stop() {
      await end();
      process.off('exit', remove);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
