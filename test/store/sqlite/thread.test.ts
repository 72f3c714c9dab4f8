import { closeSync, existsSync, openSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { mock } from 'node:test';
import { MessageChannel, Worker } from 'node:worker_threads';
import t, { type Test } from 'tap';
import { systemClock } from '../../../src/kernel/clock.ts';
import type { RollcallError } from '../../../src/kernel/errors.ts';
import { armFailpoint, disarmFailpoint, type FailpointFault } from '../../../src/kernel/failpoint.ts';
import { NO_EVENTS } from '../../../src/store/port.ts';
import { openSqliteStore } from '../../../src/store/sqlite/store.ts';
import { GROUP_WEIGHT, HEAVY, type OperationGroup } from '../../../src/store/sqlite/thread/group.ts';
import { serve, type ThreadRequest } from '../../../src/store/sqlite/thread/thread.ts';
import { accept, codeOf, message } from '../../contract/store-fixture.ts';

/** The thread is watched by real time, which a test moves here. */
const watch = mock.timers;
watch.enable({ apis: ['setInterval'] });
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** A store, and the failures that it reports. */
async function open(t: Test, fault: FailpointFault | null, passes = 3) {
  // Never passed by: it takes away what the test before it armed.
  armFailpoint('commit', fault === null ? Number.POSITIVE_INFINITY : passes, fault ?? 'kill');
  const failures: RollcallError[] = [];
  const failed = Promise.withResolvers<RollcallError>();
  const onFatal = (error: RollcallError) => {
    failures.push(error);
    failed.resolve(error);
  };
  const path = join(t.testdir({}), 'a.db');
  const events = { ...NO_EVENTS, onFatal };
  const store = await openSqliteStore({ path, maxQueued: 100, clock: systemClock, events });
  return { store, failures, failed: failed.promise };
}

t.test('fails running and later calls of a thread that throws, and reports it once', async (t) => {
  const { store, failures, failed } = await open(t, 'throw');
  t.equal(await codeOf(accept(store, message())), null);
  await store.ping();
  // The thread may still answer much before it falls over: there is something in work as long as it answers.
  const askUntilRefused = async () => {
    for (;;) {
      const code = await codeOf(accept(store, message()));
      if (code !== null) return code;
    }
  };
  const asked = Promise.all(Array.from({ length: 500 }, askUntilRefused));
  t.match(await failed, { code: 'store_failed', message: /a fault that a test asked for/ });
  t.same(new Set(await asked), new Set(['store_failed']));
  t.equal(await codeOf(store.ping()), 'store_failed');
  await store.close();
  t.equal(failures.length, 1);
});

t.test('writes many single calls in one commit', async (t) => {
  const { store, failures, failed } = await open(t, 'throw', 4);
  await accept(store, message());
  await store.ping();
  const asked = await Promise.all(Array.from({ length: 600 }, () => codeOf(accept(store, message()))));
  t.same(new Set(asked), new Set([null]), 'the next commit would have failed');
  await codeOf(store.ping());
  t.match(await failed, { code: 'store_failed' });
  await store.close();
  t.equal(failures.length, 1);
});

t.test('commits waiting groups together, and leaves syncs of heavy commits to the main thread', async (t) => {
  // What serves here is no thread of its own.
  disarmFailpoint();
  const { port1, port2 } = new MessageChannel();
  const replies: unknown[] = [];
  const all = Promise.withResolvers<void>();
  port1.on('message', (reply: unknown) => {
    replies.push(reply);
    if (replies.length === 5) all.resolve();
  });
  const identity = { store: 's', suppressionKey: 'k' };
  await serve(port2, { path: join(t.testdir({}), 'a.db'), identity, failpoint: null });
  const ping = { now: 0, ahead: 0, verb: 'ping', args: [] } as const;
  const send = (operations: number, needsSync: boolean, weight: number) =>
    port1.postMessage({ operations: new Array(operations).fill(ping), needsSync, weight } satisfies OperationGroup);
  send(1, false, 10);
  send(2, true, 10);
  send(1, false, GROUP_WEIGHT - 10);
  send(1, true, 10);
  send(1, true, HEAVY);
  port1.postMessage('scrub' satisfies ThreadRequest);
  send(1, false, 10);
  await all.promise;
  port1.postMessage('close' satisfies ThreadRequest);
  t.match(replies, [
    { opened: { damage: null } },
    { results: { length: 3 }, groups: 2, needsSync: false },
    { results: { length: 2 }, groups: 2, needsSync: true },
    { results: { length: 1 }, groups: 1, needsSync: true },
    { scrubbed: null },
  ]);
});

t.test('ends a store whose log is removed, without acknowledging anything', async (t) => {
  const { store, failures, failed } = await open(t, null);
  await accept(store, message());
  rmSync(join(t.testdirName, 'a.db-wal'));
  const asked = codeOf(accept(store, ...Array.from({ length: 1_500 }, () => message())));
  t.match(await failed, { code: 'store_missing', message: /a\.db-wal was removed/ });
  t.equal(await asked, 'store_missing');
  await store.close();
  t.equal(failures.length, 1);
});

/** Puts something that can't be synced in place of the log that is open for that. */
function breakLog(path: string): void {
  const isReadOnly = (fd: string) => /^flags:\s+\d*0$/m.test(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8'));
  const isLog = (fd: string) => existsSync(`/proc/self/fd/${fd}`) && readlinkSync(`/proc/self/fd/${fd}`) === path;
  const log = Number(readdirSync('/proc/self/fd').find((fd) => isLog(fd) && isReadOnly(fd)));
  closeSync(log);
  for (let opened = -1; opened < log; ) opened = openSync('/dev/null', 'r');
}

t.test("ends a store whose log can't be synced, without acknowledging anything", async (t) => {
  const { store, failures, failed } = await open(t, null);
  await accept(store, message());
  breakLog(join(t.testdirName, 'a.db-wal'));
  const asked = codeOf(accept(store, ...Array.from({ length: 1_500 }, () => message())));
  t.match(await failed, { code: 'store_failed', message: /can't be synced/ });
  t.equal(await asked, 'store_failed');
  await store.close();
  t.equal(failures.length, 1);
});

t.test('reads without syncing the log', async (t) => {
  const { store, failures } = await open(t, null);
  breakLog(join(t.testdirName, 'a.db-wal'));
  const asked = await Promise.all(Array.from({ length: 20 }, () => codeOf(store.runs({ limit: 1 }))));
  t.same(new Set(asked), new Set([null]));
  await store.close();
  t.same(failures, []);
});

t.test('gives up a thread that does not answer', async (t) => {
  const { store, failures, failed } = await open(t, 'hang');
  await accept(store, message());
  await store.ping();
  const asked = codeOf(accept(store, message()));
  await turn();
  watch.tick(100_000);
  t.same(failures, []);
  watch.tick(100_000);
  t.match(await failed, { code: 'store_failed', message: /stuck/ });
  t.equal(await asked, 'store_failed');
  await store.close();
  t.equal(failures.length, 1);
});

t.test('does not give up a thread that is idle or closed', async (t) => {
  const { store, failures } = await open(t, null);
  await accept(store, message());
  watch.tick(3_600_000);
  await store.ping();
  // A process that is stopped looks once when it wakes, however long that was.
  const asked = store.ping();
  await turn();
  watch.tick(20_000);
  await asked;
  watch.tick(3_600_000);
  await store.close();
  t.same(failures, []);
});

t.test('ends the store after an unexpected answer, and gives nobody another’s result', async (t) => {
  for (const reply of [
    null,
    'pong',
    {},
    { results: 'all' },
    { results: 'all', groups: 1 },
    { results: [{ value: 1 }] },
    { results: [], groups: 0 },
    { results: [], groups: 1 },
    { results: [null], groups: 1 },
    { results: [{ value: 1 }, { value: 2 }], groups: 1 },
    { results: [{ value: 1 }, { value: 2 }], groups: 2 },
  ]) {
    const workers: Worker[] = [];
    const { postMessage } = Worker.prototype;
    Worker.prototype.postMessage = function (this: Worker, ...given) {
      workers.push(this);
      return postMessage.apply(this, given);
    };
    const { store, failed } = await open(t, null);
    await store.ping();
    Worker.prototype.postMessage = postMessage;
    const asked = codeOf(store.ping());
    await turn();
    workers[0]?.emit('message', reply);
    t.match(await failed, { code: 'store_failed', message: /unexpected answer/ }, JSON.stringify(reply));
    t.equal(await asked, 'store_failed');
    await store.close();
  }
});
