import { type ChildProcessByStdio, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import t, { type Test } from 'tap';
import { Holders, type HostSystem } from '../../../src/store/sqlite/holder.ts';

const SCRIPT = new URL('../fixtures/holder.ts', import.meta.url).pathname;

/** A Linux machine's view of its processes, by pid: when each was started, and its state. */
function linux(pid: number, processes: Record<number, string>, over: Partial<HostSystem> = {}): HostSystem {
  const files: Record<string, string> = { '/proc/sys/kernel/random/boot_id': 'boot-1\n' };
  for (const [id, stat] of Object.entries(processes)) files[`/proc/${id}/stat`] = stat;
  const found = (path: string) => {
    const text = files[path];
    if (text === undefined) throw Object.assign(new Error(`no ${path}`), { code: 'ENOENT' });
    return text;
  };
  return {
    platform: 'linux',
    pid,
    hostname: () => 'app',
    read: found,
    link: (path) => `${path.split('/').at(-1)}:[1]`,
    probe(other) {
      if (processes[other] === undefined) throw Object.assign(new Error('no process'), { code: 'ESRCH' });
    },
    ...over,
  };
}

/** As in proc_pid_stat(5), with a name that tries to be misread. */
const stat = (started: number, state = 'S') => `7 (a) R 1 (b) ${state} ${Array(18).fill(0).join(' ')} ${started} 0 0`;

t.test('tells a running process from one whose pid no longer exists', async (t) => {
  const { own } = new Holders(linux(7, { 7: stat(100) }));
  t.notOk(new Holders(linux(8, { 7: stat(100), 8: stat(200) })).hasExited(own));
  t.ok(new Holders(linux(8, { 8: stat(200) })).hasExited(own));
});

t.test('tells a reused pid from the process that had it before', async (t) => {
  const { own } = new Holders(linux(7, { 7: stat(100) }));
  t.ok(new Holders(linux(8, { 7: stat(150), 8: stat(200) })).hasExited(own), 'as another process');
  t.ok(new Holders(linux(7, { 7: stat(150) })).hasExited(own), 'as this process');
  t.notOk(new Holders(linux(7, { 7: stat(100) })).hasExited(own), 'this process itself');
});

t.test('counts a zombie as exited', async (t) => {
  const { own } = new Holders(linux(7, { 7: stat(100) }));
  t.ok(new Holders(linux(8, { 7: stat(100, 'Z'), 8: stat(200) })).hasExited(own));
});

t.test('relies on the lease alone across boots and namespaces of pids or time', async (t) => {
  const { own } = new Holders(linux(7, { 7: stat(100) }));
  const elsewhere = (namespace: string) => (path: string) =>
    path.endsWith(namespace) ? 'other:[2]' : `${path.split('/').at(-1)}:[1]`;
  for (const namespace of ['pid', 'time']) {
    const other = new Holders(linux(8, { 8: stat(200) }, { link: elsewhere(namespace) }));
    t.notOk(other.hasExited(own), namespace);
  }
  const { read } = linux(8, { 8: stat(200) });
  const reboot = linux(8, {}, { read: (path) => (path.endsWith('boot_id') ? 'boot-2' : read(path)) });
  t.notOk(new Holders(reboot).hasExited(own), 'boot');
});

t.test('declares nobody dead because /proc is missing or hidden', async (t) => {
  const nothing = () => {
    throw Object.assign(new Error('no /proc'), { code: 'ENOENT' });
  };
  const bare = linux(7, { 7: stat(100) }, { read: nothing, link: nothing });
  const { own } = new Holders(bare);
  t.notOk(new Holders({ ...bare, pid: 8, probe: linux(8, {}).probe }).hasExited(own), 'no /proc at all');
  const seen = new Holders(linux(7, { 7: stat(100) })).own;
  const hidden = linux(8, { 8: stat(200) }, { probe: () => {} });
  t.notOk(new Holders(hidden).hasExited(seen), 'a process that another user hides (hidepid)');
  const denied = () => {
    throw Object.assign(new Error('not yours'), { code: 'EPERM' });
  };
  t.notOk(
    new Holders(linux(8, { 7: stat(100), 8: stat(200) }, { probe: denied })).hasExited(seen),
    'one of another user',
  );
});

t.test('trusts pids of the same host on macOS and Windows', async (t) => {
  const gone = linux(8, {}).probe;
  for (const platform of ['darwin', 'win32'] as const) {
    const mac = (pid: number, hostname = 'mac', probe = gone): HostSystem => ({
      ...linux(pid, {}),
      platform,
      hostname: () => hostname,
      probe,
    });
    const { own } = new Holders(mac(7));
    t.ok(new Holders(mac(8)).hasExited(own));
    t.notOk(new Holders(mac(8, 'mac', () => {})).hasExited(own));
    t.notOk(new Holders(mac(8, 'other')).hasExited(own));
  }
});

type Child = ChildProcessByStdio<Writable, Readable, null>;

/** Starts a process on the store, by way of a command if need be. */
function start(
  t: Test,
  path: string,
  ...command: readonly string[]
): { child: Child; ask: (what: string) => Promise<unknown> } {
  const [program = '', ...args] = [...command, process.execPath, SCRIPT, path];
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'], env: { ...process.env, NODE_OPTIONS: '' } });
  t.teardown(() => child.stdin.end());
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    child,
    async ask(what) {
      child.stdin.write(`${what}\n`);
      return JSON.parse((await lines.next()).value as string);
    },
  };
}

t.test('frees the claims of a killed process at once', async (t) => {
  const path = join(t.testdir({}), 'a.db');
  const first = start(t, path);
  t.same(await first.ask('hold'), { claimed: 3, lease: true });
  const second = start(t, path);
  t.same(await second.ask('look'), { rescued: 0, lease: false });
  first.child.kill('SIGKILL');
  await once(first.child, 'exit');
  t.same(await second.ask('look'), { rescued: 3, lease: true });
});

const mayUnshare = spawnSync('unshare', ['--pid', '--fork', '--mount-proc', 'true']).status === 0;

t.test(
  'keeps processes of two namespaces with one host name apart',
  { skip: mayUnshare ? false : 'no right to make a namespace of pids' },
  async (t) => {
    const path = join(t.testdir({}), 'a.db');
    // Some processes more, so that the pid of the one is none of the other's.
    const namespace = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc', 'sh', '-c'];
    const first = start(t, path, ...namespace, 'for i in 1 2 3 4 5 6 7 8 9; do /bin/true; done; "$@"', 'sh');
    t.same(await first.ask('hold'), { claimed: 3, lease: true });
    const second = start(t, path, ...namespace, '"$@"', 'sh');
    t.same(await second.ask('look'), { rescued: 0, lease: false });
  },
);
