import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { freePort } from './free-port.ts';

/** It refuses to run as root, as Postgres does. */
const user = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};

/** Why tests with PgBouncer are skipped, if they are. */
export const noPgbouncer: string | false = (() => {
  try {
    execFileSync('pgbouncer', ['--version'], { stdio: 'ignore' });
    return false;
  } catch {
    return 'there is no pgbouncer here (Debian: apt-get install pgbouncer)';
  }
})();

export interface Pooler {
  /** The URL of a database, through the pooler. */
  through(url: string): string;
  stop(): Promise<void>;
}

/** A PgBouncer as it comes, before the server at this port. With few sessions, so that clients get each other's. */
export async function startPgbouncer(
  server: number,
  mode: 'transaction' | 'session' | 'statement',
  poolSize = 3,
): Promise<Pooler> {
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-pgbouncer-'));
  await chmod(folder, 0o755);
  const port = await freePort();
  const file = join(folder, 'pgbouncer.ini');
  await writeFile(
    file,
    `[databases]
* = host=127.0.0.1 port=${server} user=rollcall
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = ${mode}
default_pool_size = ${poolSize}
max_client_conn = 1000
`,
  );
  const child: ChildProcess = spawn('pgbouncer', [file], { ...user, stdio: ['ignore', 'ignore', 'pipe'] });
  const kill = () => child.kill('SIGKILL');
  process.once('exit', kill);
  const exited = once(child, 'exit');
  await new Promise<void>((resolve, reject) => {
    const log: string[] = [];
    createInterface({ input: child.stderr as NodeJS.ReadableStream }).on('line', (line) => {
      log.push(line);
      if (line.includes('process up')) resolve();
    });
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`pgbouncer ended with ${code}:\n${log.join('\n')}`)));
  });
  return {
    through(url) {
      const changed = new URL(url);
      changed.port = String(port);
      return changed.href;
    },
    async stop() {
      kill();
      await exited;
      process.off('exit', kill);
      await rm(folder, { recursive: true, force: true });
    },
  };
}
