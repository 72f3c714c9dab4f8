import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { Client } from '../../src/client/index.ts';
import { OwnerProcesses, type ProcessSystem, thisSystem } from '../../src/client/node/process.ts';
import { folder } from './folder.ts';
import { deadEndpoint, service } from './service.ts';

interface Running {
  started: number;
  state?: string;
}

const HOUR = 3_600_000;
const NOW = Date.parse('2026-01-02T03:04:05.678Z');

/** A Linux machine that was booted a day ago. */
class Machine implements ProcessSystem {
  pid: number;
  startedAt = NOW - HOUR;
  boot = 'boot-1';
  namespace = 'pid:[4026531836]';
  running = new Map<number, Running>();
  hidden = false;

  constructor(pid: number, started: number) {
    this.pid = pid;
    this.running.set(pid, { started });
  }

  now = () => NOW;
  uptime = () => 24 * HOUR;
  elapsed = (_pid: number): string => {
    throw new Error('not asked where /proc is there');
  };

  read(file: string): string {
    if (file === '/proc/sys/kernel/random/boot_id') return `${this.boot}\n`;
    const pid = Number(/^\/proc\/(\d+)\/stat$/.exec(file)?.[1]);
    const found = this.running.get(pid);
    if (!found || (this.hidden && pid !== this.pid)) throw Object.assign(new Error(file), { code: 'ENOENT' });
    return `${pid} (a) name) S (x) ${found.state ?? 'S'} ${'0 '.repeat(18)}${found.started} 0`;
  }

  link(file: string): string {
    if (file === '/proc/self/ns/pid') return this.namespace;
    throw Object.assign(new Error(file), { code: 'ENOENT' });
  }

  probe(pid: number): void {
    if (!this.running.has(pid)) throw Object.assign(new Error('kill'), { code: 'ESRCH' });
    if (this.hidden) throw Object.assign(new Error('kill'), { code: 'EPERM' });
  }
}

/** A machine without /proc. */
class Mac extends Machine {
  ages = new Map<number, string>();

  override read(file: string): string {
    throw Object.assign(new Error(file), { code: 'ENOENT' });
  }

  override elapsed = (pid: number): string => {
    const age = this.ages.get(pid);
    if (age === undefined) throw new Error('no ps');
    return age;
  };
}

t.test('tells processes apart by boot, container, pid and start', (t) => {
  const claim = new OwnerProcesses(new Machine(70, 500)).claim();
  const reader = (change: (machine: Machine) => void) => {
    const machine = new Machine(71, 900);
    change(machine);
    return new OwnerProcesses(machine).isGone(claim);
  };
  t.equal(
    reader((m) => m.running.set(70, { started: 500 })),
    false,
    'lives',
  );
  t.equal(
    reader(() => {}),
    true,
    'has ended',
  );
  t.equal(
    reader((m) => m.running.set(70, { started: 501 })),
    true,
    'its pid was given to another',
  );
  t.equal(
    reader((m) => m.running.set(70, { started: 500, state: 'Z' })),
    true,
    'has ended, and nobody has asked how',
  );
  t.equal(
    reader((m) => {
      m.running.set(70, { started: 500 });
      m.boot = 'boot-2';
    }),
    true,
    'lived before the boot',
  );
  t.equal(
    reader((m) => {
      m.running.set(70, { started: 500 });
      m.namespace = 'pid:[4026532000]';
    }),
    true,
    'lived in another container',
  );
  t.equal(
    reader((m) => {
      m.running.set(70, { started: 900 });
      m.hidden = true;
    }),
    false,
    'somebody has its pid, and nobody may look who',
  );
  t.equal(new OwnerProcesses(new Machine(70, 500)).isGone(claim), false, 'is this one');
  t.equal(new OwnerProcesses(new Machine(70, 501)).isGone(claim), true, 'had the pid of this one');
  t.end();
});

t.test('tells processes apart by times if there is no /proc', (t) => {
  const machine = new Mac(70, 0);
  const claim = new OwnerProcesses(machine).claim();
  t.match(claim, { scope: '0', started: 0 });
  const gone = (claimed: number, age: string | undefined) => {
    const reader = new Mac(71, 0);
    reader.running.set(70, { started: 0 });
    if (age !== undefined) reader.ages.set(70, age);
    return new OwnerProcesses(reader).isGone({ ...claim, claimed });
  };
  t.equal(gone(NOW - HOUR, '   01:00:05\n'), false, 'started before it took the file');
  t.equal(gone(NOW - HOUR, '59:30'), true, 'started later');
  t.equal(gone(NOW - HOUR, '2-00:00:00'), false);
  t.equal(gone(NOW - HOUR, undefined), false, 'nobody knows, and it may live');
  t.equal(gone(NOW - 25 * HOUR, '2-00:00:00'), true, 'taken before the boot');
  const own = new OwnerProcesses(machine);
  t.equal(own.isGone({ ...claim, claimed: machine.startedAt + 1 }), false);
  t.equal(own.isGone({ ...claim, claimed: machine.startedAt - 1 }), true, 'this pid, before this process');
  const alone = new Mac(71, 0);
  t.equal(new OwnerProcesses(alone).isGone(claim), true, 'nobody has that pid');
  t.end();
});

const hasPs = fs.existsSync('/bin/ps') || fs.existsSync('/usr/bin/ps');

t.test('reads the start of a process from ps', { skip: hasPs ? false : 'ps is not installed' }, async (t) => {
  const missing = (): never => {
    throw new Error('no /proc');
  };
  const reader = new OwnerProcesses({ ...thisSystem, read: missing, link: missing });
  const claim = reader.claim();
  t.equal(claim.scope, '0');
  const child = spawn(process.execPath, ['-e', 'process.stdin.resume()']);
  t.teardown(() => child.kill());
  await once(child, 'spawn');
  const { pid = 0 } = child;
  t.equal(reader.isGone({ ...claim, pid, claimed: Date.now() }), false, 'started before the file was taken');
  const justBooted = new OwnerProcesses({ ...thisSystem, read: missing, link: missing, uptime: () => 10 * HOUR });
  t.equal(justBooted.isGone({ ...claim, pid, claimed: Date.now() - HOUR }), true, 'started after');
  const ended = once(child, 'exit');
  child.kill();
  await ended;
  t.equal(reader.isGone({ ...claim, pid, claimed: Date.now() }), true, 'is not there any more');
});

t.test('takes over the files of an ended process whose pid has been reused', async (t) => {
  const spool = folder(t);
  const endpoint = await deadEndpoint();
  const first = new Client('KEY', { endpoint, spool, onLoss: () => {} });
  first.track({ userId: 'u', event: 'left' });
  const [file = ''] = fs.readdirSync(spool);
  // The file as if a process that ended had left it, whose pid was given to this one, which lives.
  const other = spawn(process.execPath, ['-e', 'process.stdin.resume()']);
  t.teardown(() => other.kill());
  await once(other, 'spawn');
  const parts = file.split('-');
  parts[4] = String(other.pid);
  if (parts.length > 6) parts[6] = '1';
  fs.renameSync(path.join(spool, file), path.join(spool, parts.join('-')));
  const live = await service(t);
  const second = new Client('KEY', { endpoint: live.endpoint, spool });
  t.same(await second.close(), { sent: 1, failed: 0, dropped: 0 });
  t.same(live.events(), ['left']);
});

t.test('leaves the files of a live process alone, in another process too', async (t) => {
  const spool = folder(t);
  const host = new URL('./fixtures/host.ts', import.meta.url);
  const child = spawn(process.execPath, [host.pathname, 'hold', await deadEndpoint(), spool], { stdio: 'pipe' });
  t.teardown(() => child.kill());
  await once(child.stdout, 'data');
  const client = new Client('SECRET-KEY', { endpoint: await deadEndpoint(), spool });
  t.equal(client.queued, 0);
  await client.close();
});
