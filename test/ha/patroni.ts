import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { chown, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { freePort } from '../helpers/free-port.ts';
import { openValve, type Valve } from './valve.ts';

/** Neither Patroni nor Postgres run as root. */
const user = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};
const POSTGRES = '/usr/lib/postgresql';
const MEMBERS = 3;
/** The shortest that Patroni allows, in seconds: a primary that is gone is replaced after so long. */
const TTL = 20;
/** Longest wait for a cluster to be whole, in milliseconds. */
const PATIENCE = 180_000;

/** Why a cluster can't be started here, if it can't. */
export const noCluster: string | false = (() => {
  const missing = ['patroni', 'etcd', 'haproxy'].filter((program) => !has(program));
  if (postgresFolder() === null) missing.push('postgresql');
  if (missing.length === 0) return false;
  return `there is no ${missing.join(', no ')} here (Debian: apt-get install patroni etcd-server postgresql haproxy)`;
})();

function has(program: string): boolean {
  try {
    execFileSync('which', [program], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

function postgresFolder(): string | null {
  const versions = existsSync(POSTGRES) ? readdirSync(POSTGRES) : [];
  const folder = join(POSTGRES, versions.sort((a, b) => Number(b) - Number(a))[0] ?? 'none', 'bin');
  return existsSync(join(folder, 'postgres')) ? folder : null;
}

/** One machine of the cluster: a Postgres with the Patroni that looks after it, and the ways to both. */
export interface Machine {
  readonly name: string;
  /** Ends both as `kill -9` does. */
  kill(): void;
  /** Ends Postgres only, which its Patroni then finds. */
  crash(): void;
  /** Stops all processes, until `resume`. */
  stop(): void;
  resume(): void;
  /** Nothing passes between it and the others, until `connect`. */
  cutOff(): void;
  connect(): void;
  /** Starts Patroni, if it does not run. */
  start(): void;
}

export interface Patroni {
  /** Where HAProxy leads to whoever is the primary. */
  readonly url: string;
  readonly machines: readonly Machine[];
  /** The machine that is the primary now, as the others see it. */
  primary(): Promise<string | null>;
  /** Resolves once another machine than this takes writes. */
  newPrimary(than: string): Promise<void>;
  /** Resolves once there is a primary, and both others follow it, one of them synchronously. */
  whole(): Promise<void>;
  /** Has the primary hand over to another in good order. */
  switchOver(from: string): Promise<void>;
  close(): Promise<void>;
}

interface Member {
  readonly name: string;
  readonly role: string;
  readonly state: string;
}

export async function startPatroni(): Promise<Patroni> {
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-patroni-'));
  const bin = postgresFolder() ?? '';
  const children = new Set<ChildProcess>();
  const valves: Valve[] = [];
  const rests: number[] = [];
  const machines: Machine[] = [];
  const servers: string[] = [];
  // Also where the test ends in the middle.
  const endAll = () => {
    for (const machine of machines) machine.kill();
    for (const child of children) child.kill('SIGKILL');
  };
  process.once('exit', endAll);
  const run = (name: string, command: string, args: readonly string[]) => {
    const log = openSync(join(folder, `${name}.log`), 'a');
    const env = { PATH: process.env['PATH'], HOME: folder, LC_ALL: 'C.UTF-8' };
    const child = spawn(command, args, { ...user, cwd: folder, env, stdio: ['ignore', log, log] });
    children.add(child);
    child.once('exit', () => children.delete(child));
    child.on('error', () => undefined);
    return child;
  };
  const own = async (path: string) => user.uid !== undefined && chown(path, user.uid, user.gid);
  await own(folder);

  const [etcd, peers] = [await freePort(), await freePort()];
  const etcdUrl = `http://127.0.0.1:${etcd}`;
  run('etcd', 'etcd', [
    ...['--data-dir', join(folder, 'etcd'), '--enable-v2=true'],
    ...['--listen-client-urls', etcdUrl, '--advertise-client-urls', etcdUrl],
    ...[
      '--listen-peer-urls',
      `http://127.0.0.1:${peers}`,
      '--initial-advertise-peer-urls',
      `http://127.0.0.1:${peers}`,
    ],
    ...['--initial-cluster', `default=http://127.0.0.1:${peers}`],
  ]);
  await until('etcd answers', async () => (await fetch(`${etcdUrl}/health`)).ok);

  for (let n = 1; n <= MEMBERS; n += 1) {
    const name = `pg${n}`;
    const [rest, postgres] = [await freePort(), await freePort()];
    const ways = { rest: await openValve(rest), postgres: await openValve(postgres), etcd: await openValve(etcd) };
    valves.push(...Object.values(ways));
    rests.push(rest);
    servers.push(`server ${name} 127.0.0.1:${ways.postgres.port} check port ${ways.rest.port}`);
    const data = join(folder, name);
    await mkdir(data, { mode: 0o700 });
    await own(data);
    const file = join(folder, `${name}.yml`);
    await writeFile(file, JSON.stringify(settings({ name, data, bin, folder, rest, postgres, ways })));
    machines.push(machineOf(name, data, ways, () => run(name, 'patroni', [file])));
  }
  for (const machine of machines) machine.start();

  const front = await freePort();
  const config = join(folder, 'haproxy.cfg');
  await writeFile(
    config,
    `global
  maxconn 1000
defaults
  mode tcp
  timeout connect 2s
  timeout client 1h
  timeout server 1h
  timeout check 1s
listen primary
  bind 127.0.0.1:${front}
  option httpchk GET /primary
  http-check expect status 200
  default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
  ${servers.join('\n  ')}
`,
  );
  run('haproxy', 'haproxy', ['-db', '-f', config]);

  /** As any of them that answers sees it; those that are stopped don't. */
  async function members(): Promise<readonly Member[]> {
    const asked = rests.map(async (rest) => {
      const response = await fetch(`http://127.0.0.1:${rest}/cluster`, { signal: AbortSignal.timeout(2_000) });
      return ((await response.json()) as { members: Member[] }).members;
    });
    return Promise.any(asked).catch(() => []);
  }
  /** The machine that says itself that it takes writes, and is the one that etcd names. */
  async function primary(except?: string): Promise<string | null> {
    for (const [place, machine] of machines.entries()) {
      if (machine.name === except) continue;
      const response = await fetch(`http://127.0.0.1:${rests[place]}/primary`, {
        signal: AbortSignal.timeout(1_000),
      }).catch(() => null);
      if (response?.status === 200) return machine.name;
    }
    return null;
  }
  async function isWhole(): Promise<boolean> {
    const found = await members();
    const [leaders, followers] = [found.filter(isLeader), found.filter((member) => !isLeader(member))];
    const isSynchronous = followers.some(({ role }) => role === 'sync_standby');
    const follow = followers.filter(({ state }) => state === 'running' || state === 'streaming').length;
    return leaders.length === 1 && leaders[0]?.state === 'running' && follow === MEMBERS - 1 && isSynchronous;
  }
  const whole = () => until('the cluster is whole', isWhole, folder);
  const patroni: Patroni = {
    url: `postgres://postgres:rollcall@127.0.0.1:${front}/rollcall`,
    machines,
    primary: () => primary(),
    newPrimary: (than) =>
      until(`another than ${than} takes writes`, async () => (await primary(than)) !== null, folder),
    whole,
    async switchOver(from) {
      const rest = rests[machines.findIndex(({ name }) => name === from)];
      const body = JSON.stringify({ leader: from });
      const response = await fetch(`http://127.0.0.1:${rest}/switchover`, { method: 'POST', body });
      if (!response.ok) throw new Error(`no switchover: ${response.status} ${await response.text()}`);
    },
    async close() {
      const exits = [...children].map((child) => once(child, 'exit'));
      endAll();
      process.off('exit', endAll);
      await Promise.all([...exits, ...valves.map((valve) => valve.close())]);
      await rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 200 });
    },
  };
  try {
    await whole();
    return patroni;
  } catch (error) {
    await patroni.close();
    throw error;
  }
}

const isLeader = ({ role }: Member) => role === 'leader' || role === 'master';

type Ways = Readonly<Record<'rest' | 'postgres' | 'etcd', Valve>>;

function machineOf(name: string, data: string, ways: Ways, launch: () => ChildProcess): Machine {
  let patroni: ChildProcess | null = null;
  const postmaster = (): number | null => {
    try {
      return Number(readFileSync(join(data, 'pg', 'postmaster.pid'), 'utf8').split('\n')[0]);
    } catch {
      return null;
    }
  };
  const signal = (pid: number | null | undefined, name: NodeJS.Signals) => {
    try {
      if (pid) process.kill(pid, name);
    } catch {
      // It is gone already.
    }
  };
  const everything = (name: NodeJS.Signals) => {
    const server = postmaster();
    for (const pid of [patroni?.pid, server, ...(server ? childrenOf(server) : [])]) signal(pid, name);
  };
  return {
    name,
    kill() {
      everything('SIGKILL');
    },
    crash() {
      signal(postmaster(), 'SIGKILL');
    },
    stop: () => everything('SIGSTOP'),
    resume: () => everything('SIGCONT'),
    cutOff() {
      for (const way of Object.values(ways)) way.cut();
    },
    connect() {
      for (const way of Object.values(ways)) way.restore();
    },
    start() {
      if (patroni && patroni.exitCode === null && patroni.signalCode === null) return;
      patroni = launch();
    },
  };
}

function childrenOf(pid: number): readonly number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

interface Node {
  readonly name: string;
  readonly data: string;
  readonly bin: string;
  readonly folder: string;
  readonly rest: number;
  readonly postgres: number;
  readonly ways: Ways;
}

/** The settings of docs/postgres.md, with the shortest times that Patroni allows. */
function settings({ name, data, bin, folder, rest, postgres, ways }: Node): object {
  const login = (username: string) => ({ username, password: 'rollcall' });
  return {
    scope: 'rollcall',
    name,
    restapi: { listen: `127.0.0.1:${rest}`, connect_address: `127.0.0.1:${ways.rest.port}` },
    // By proxies, or it would ask etcd for another way to it. By etcd's older interface: Patroni 3.0.2, once it was cut off,
    // keeps an old copy of keys by the newer one, and never appoints a synchronous standby again.
    etcd: { hosts: `127.0.0.1:${ways.etcd.port}`, use_proxies: true },
    bootstrap: {
      dcs: {
        ...{ ttl: TTL, loop_wait: 2, retry_timeout: 5, maximum_lag_on_failover: 1_048_576, master_start_timeout: 0 },
        synchronous_mode: true,
        synchronous_mode_strict: true,
        postgresql: {
          use_pg_rewind: true,
          parameters: { max_connections: 200, max_wal_size: '1GB', wal_keep_size: '512MB', autovacuum_naptime: '5s' },
        },
      },
      initdb: [{ encoding: 'UTF8' }, { locale: 'C.UTF-8' }],
    },
    postgresql: {
      listen: `127.0.0.1:${postgres}`,
      connect_address: `127.0.0.1:${ways.postgres.port}`,
      data_dir: join(data, 'pg'),
      bin_dir: bin,
      pgpass: join(folder, `${name}.pgpass`),
      authentication: { superuser: login('postgres'), replication: login('replicator'), rewind: login('rewinder') },
      pg_hba: ['host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust'],
      parameters: { unix_socket_directories: data },
    },
  };
}

/** @param folder - whose logs tell what went wrong */
async function until(what: string, isSo: () => Promise<boolean>, folder?: string): Promise<void> {
  const end = performance.now() + PATIENCE;
  while (!(await isSo().catch(() => false))) {
    if (performance.now() > end)
      throw new Error(`not in ${PATIENCE / 1_000} s: ${what}\n${folder ? await lastOf(folder) : ''}`);
    await pause(100);
  }
}

async function lastOf(folder: string): Promise<string> {
  const logs = readdirSync(folder).filter((file) => file.endsWith('.log'));
  const ends = logs.map(
    async (file) => `${file}:\n${(await readFile(join(folder, file), 'utf8')).split('\n').slice(-15).join('\n')}`,
  );
  return (await Promise.all(ends)).join('\n');
}
