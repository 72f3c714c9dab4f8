import type { ServerResponse } from 'node:http';
import t from 'tap';
import { createAccept } from '../../src/accept.ts';
import { DestinationQueue } from '../../src/deliver/destination-queue.ts';
import { LEASE_TTL, ProcessLease } from '../../src/deliver/process-lease.ts';
import type { WorkerStore } from '../../src/deliver/worker-options.ts';
import { silentLogger } from '../../src/kernel/log.ts';
import { ATTEMPT_TIMEOUT } from '../../src/kernel/retry.ts';
import type { Store } from '../../src/store/port.ts';
import { ManualClock } from '../helpers/clock.ts';
import { testDatabase } from '../helpers/database.ts';
import { Receiver, status } from './helpers/receiver.ts';
import { destination, message, Rig } from './helpers/rig.ts';

/** A store that fails while `isDown`, verb by verb. */
function failing(isDown: (verb: string) => boolean): (store: Store) => WorkerStore {
  return (store) =>
    new Proxy(store, {
      get(target, verb, receiver) {
        const value = Reflect.get(target, verb, receiver);
        if (typeof value !== 'function') return value;
        return (...args: unknown[]) =>
          isDown(String(verb)) ? Promise.reject(new Error('The store is down.')) : value.apply(target, args);
      },
    });
}

/** A database, and a store of it for what another process does. */
async function shared(t: Parameters<typeof Rig.start>[0]) {
  const clock = new ManualClock();
  const database = await testDatabase(t, clock);
  return { clock, database, store: await database.open() };
}

/** A database, and another process that accepts into it. */
async function elsewhere(t: Parameters<typeof Rig.start>[0]) {
  const { database, store } = await shared(t);
  const send = (receiver: Receiver, count: number) =>
    createAccept(store, () => [destination(receiver.url)])(
      'shop',
      Array.from({ length: count }, (_, index) => message({ value: index })),
    );
  return { database, send };
}

const keysOf = (receiver: Receiver) => receiver.requests.map(({ headers }) => headers['idempotency-key']);

t.test('delays deliveries and loses none during a store outage of some seconds', async (t) => {
  let isDown = false;
  const receiver = await Receiver.start(t);
  const { database, send } = await elsewhere(t);
  const rig = await Rig.start(t, {
    destinations: [destination(receiver.url)],
    workerStore: failing(() => isDown),
    database,
  });
  await rig.send(5);
  await rig.settled(5);
  isDown = true;
  await send(receiver, 5);
  await rig.pass(10_000);
  t.equal(receiver.requests.length, 5);
  isDown = false;
  await rig.passUntil(() => rig.settlements.length >= 10);
  t.equal(receiver.requests.length, 10);
  t.equal(new Set(keysOf(receiver)).size, 10);
});

t.test('takes a new lease and goes on after an outage longer than the lease', async (t) => {
  let isDown = false;
  const receiver = await Receiver.start(t);
  const { database, send } = await elsewhere(t);
  const rig = await Rig.start(t, {
    destinations: [destination(receiver.url)],
    workerStore: failing(() => isDown),
    database,
  });
  isDown = true;
  await send(receiver, 5);
  await rig.pass(60_000);
  t.equal(receiver.requests.length, 0);
  isDown = false;
  await rig.passUntil(() => rig.settlements.length >= 5);
  await rig.send(5);
  await rig.settled(10);
  t.same(await rig.backlogOf(0), [{ destination: 'crm', pending: 0, dead: 0, queued: 0, heldOut: 0 }]);
});

t.test('keeps settlements while the store accepts none, and sends nothing twice', async (t) => {
  let isDown = false;
  const receiver = await Receiver.start(t);
  const rig = await Rig.start(t, {
    destinations: [destination(receiver.url)],
    workerStore: failing((verb) => isDown && verb === 'settle'),
  });
  isDown = true;
  await rig.send(100);
  await rig.settled(100);
  await rig.pass(12_000);
  t.same(await rig.store.backlog(), [{ destination: 'crm', pending: 100, dead: 0, queued: 100, heldOut: 0 }]);
  isDown = false;
  await rig.pass(4_000);
  t.same(await rig.store.backlog(), [{ destination: 'crm', pending: 0, dead: 0, queued: 0, heldOut: 0 }]);
  t.equal(receiver.requests.length, 100);
});

t.test('considers the lease lost before an attempt could outlast it while the store is silent', async (t) => {
  const clock = new ManualClock();
  let isDown = false;
  const answer = <T>(value: T) => (isDown ? Promise.reject(new Error('down')) : Promise.resolve(value));
  const store = { join: () => answer(1), heartbeat: () => answer(true), leave: () => answer(undefined) };
  const hooks = { onRenewed: () => {}, onEnded: () => {}, onLost: () => {} };
  const lease = new ProcessLease(store, clock, silentLogger, hooks);
  await lease.start();
  isDown = true;
  for (let second = 0; second < 14; second += 1) {
    t.ok(lease.isHeld(), `after ${second} s`);
    clock.advance(1_000);
    await new Promise((resolve) => setImmediate(resolve));
  }
  t.ok(LEASE_TTL - 14_000 > ATTEMPT_TIMEOUT);
  t.notOk(lease.isHeld());
  isDown = false;
  clock.advance(1_000);
  await new Promise((resolve) => setImmediate(resolve));
  t.ok(lease.isHeld(), 'and as held again once the store has said so');
  await lease.stop();
});

/** A lease that the store grants while `isGranted`; every time that the store is asked counts. */
async function leaseOn(clock: ManualClock) {
  const asked = { joins: 0, heartbeats: 0 };
  const state = { isGranted: true };
  const store = {
    join: async () => {
      asked.joins += 1;
      return asked.joins;
    },
    heartbeat: async () => {
      asked.heartbeats += 1;
      return state.isGranted;
    },
    leave: async () => undefined,
  };
  let lost = 0;
  const onLost = () => {
    lost += 1;
  };
  const hooks = { onRenewed: () => {}, onEnded: () => {}, onLost };
  const lease = new ProcessLease(store, clock, silentLogger, hooks);
  await lease.start();
  return { lease, asked, state, losses: () => lost };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

t.test('drops its claims after a suspension, and asks for new ones on waking', async (t) => {
  const clock = new ManualClock();
  const { lease, asked, state, losses } = await leaseOn(clock);
  t.ok(lease.isHeld());
  clock.suspend(60_000);
  state.isGranted = false;
  t.notOk(lease.isHeld(), 'the steady clock stood still, the others did not');
  await turn();
  t.same([asked.joins, asked.heartbeats, losses()], [2, 1, 1], 'without waiting for the next heartbeat');
  t.ok(lease.isHeld());
  await lease.stop();
});

t.test('notices by the uptime that the wall clock stopped during a suspension', async (t) => {
  const clock = new ManualClock();
  const { lease, state } = await leaseOn(clock);
  clock.suspend(60_000);
  clock.jump(-60_000);
  clock.advance(1);
  state.isGranted = false;
  t.notOk(lease.isHeld());
  await lease.stop();
});

for (const step of [3_600_000, -3_600_000, 5 * 3_600_000, -5 * 3_600_000]) {
  t.test(`loses no claim and asks once when the clock is set by ${step / 3_600_000} h`, async (t) => {
    const clock = new ManualClock();
    const { lease, asked, losses } = await leaseOn(clock);
    clock.jump(step);
    for (let time = 0; time < 10; time += 1) lease.isHeld();
    await turn();
    t.ok(lease.isHeld());
    t.ok(asked.heartbeats <= 1);
    t.same([asked.joins, losses()], [1, 0]);
    for (let second = 0; second < 60; second += 1) {
      clock.advance(1_000);
      await turn();
      if (!lease.isHeld()) t.fail(`not held after ${second} s`);
    }
    await lease.stop();
  });
}

t.test('does not ask a silent store again and again after a step', async (t) => {
  const clock = new ManualClock();
  let asked = 0;
  const silent = async (): Promise<boolean> => {
    asked += 1;
    throw new Error('down');
  };
  const store = { join: async () => 1, heartbeat: silent, leave: async () => undefined };
  const hooks = { onRenewed: () => {}, onEnded: () => {}, onLost: () => {} };
  const lease = new ProcessLease(store, clock, silentLogger, hooks);
  await lease.start();
  clock.jump(3_600_000);
  for (let time = 0; time < 100; time += 1) {
    t.notOk(lease.isHeld());
    await turn();
  }
  t.equal(asked, 1);
  await lease.stop();
});

t.test('releases deliveries not begun when the lease is about to expire', async (t) => {
  const clock = new ManualClock();
  let isHeld = true;
  const posts: (() => void)[] = [];
  const settled: string[] = [];
  const queue = new DestinationQueue(destination('http://127.0.0.1:9/'), 'Rollcall', new Map(), {
    clock,
    wallTime: () => clock.now(),
    batchMemory: { bytes: 0 },
    servedSince: () => 0,
    post: (_, done) => {
      const exchange = { outcome: 'success', status: 200, error: null, response: null, retryAfter: null } as const;
      posts.push(() => done({ ...exchange, at: clock.now(), startedAt: clock.monotonic(), ms: 1 }));
    },
    holdsClaims: () => isHeld,
    isStopping: () => false,
    onSettled: ({ verdict }) => void settled.push(verdict.kind),
    record: async () => true,
    onSuspect: () => {},
    onUndeliverable() {},
    onEndpointChange: () => {},
    onShortage: () => {},
    onRoom: () => {},
  });
  const claim = {
    ...({ destination: 'crm', source: 'shop', messageId: 'm', type: 'track', userId: null, body: '{}' } as const),
    ...({
      lane: 'live',
      conflict: null,
      run: null,
      tries: 0,
      acceptedAt: 0,
      firstAt: null,
      marks: {},
      crashes: 0,
    } as const),
  };
  queue.add(Array.from({ length: 20 }, (_, index) => ({ ...claim, id: `d${index}` })));
  await new Promise((resolve) => setImmediate(resolve));
  t.equal(posts.length, 16);
  isHeld = false;
  for (const answer of posts.splice(0)) answer();
  await queue.drained();
  t.equal(posts.length, 0);
  t.same(settled.toSorted(), [...Array(16).fill('delivered'), ...Array(4).fill('release')]);
});

t.test('hands the claims of a silent process to another, and ignores its late results', async (t) => {
  const { database, store } = await shared(t);
  const open: ServerResponse[] = [];
  const receiver = await Receiver.start(t, (response) => void open.push(response));
  let isStopped = false;
  const first = await Rig.start(t, {
    destinations: [destination(receiver.url)],
    database,
    workerStore: failing(() => isStopped),
  });
  await first.send(20);
  await receiver.received(16);
  isStopped = true;
  receiver.answer = status(200);
  const second = await Rig.start(t, { destinations: [destination(receiver.url)], database });
  await second.pass(4_000);
  t.equal(second.settlements.length, 0, 'nobody takes the claims while the lease runs');
  // The four that had not begun are given back, or taken over, with the others.
  await second.passUntil(() => second.delivered() === 20);
  t.equal(new Set(keysOf(receiver)).size, 20, 'all of them, with the same keys');
  isStopped = false;
  await first.pass(30_000);
  t.same(await store.backlog(), [{ destination: 'crm', pending: 0, dead: 0, queued: 0, heldOut: 0 }]);
  const total = receiver.requests.length;
  await first.pass(30_000);
  t.equal(receiver.requests.length, total, 'the first does not send them again when it wakes');
  await first.stopInTime();
  await second.stopInTime();
});

t.test('posts none of its old claims after being stopped for a minute', async (t) => {
  const { clock, database, store } = await shared(t);
  const slow: ServerResponse[] = [];
  const quick = await Receiver.start(t);
  const busy = await Receiver.start(t, (response) => void slow.push(response));
  const rig = await Rig.start(t, { destinations: [destination([quick.url, busy.url])], database });
  await rig.send(40);
  await Promise.all([quick.received(40), busy.received(16)]);
  await rig.calm();
  // 24 first attempts wait for the busy endpoint. Now the process is stopped, and another takes over.
  clock.stall(60_000);
  t.equal(await store.rescue(), 40);
  const owner = await store.join(60_000);
  const { claims } = await store.claim(owner, [{ destination: 'crm', limit: 100, order: 'usual' }]);
  t.equal(claims[0]?.length, 40);
  busy.answer = status(200);
  for (const response of slow) response.end();
  await rig.pass(30_000);
  t.equal(busy.requests.length, 16, 'those that waited are not posted');
  t.same(
    await store.backlog(),
    [{ destination: 'crm', pending: 40, dead: 0, queued: 40, heldOut: 0 }],
    'and nothing is settled',
  );
  await store.leave(owner);
  await rig.passUntil(() => rig.delivered() >= 40);
  await rig.stopInTime();
});

t.test('takes over deliveries that a dead process had postponed', async (t) => {
  const { clock, database, store } = await shared(t);
  const receiver = await Receiver.start(t);
  const owner = await store.join(20_000);
  await store.accept({
    messages: [{ ...message(), source: 'shop', destinations: ['crm'], lane: 'live', conflict: null }],
    step: null,
  });
  const { claims } = await store.claim(owner, [{ destination: 'crm', limit: 1, order: 'usual' }]);
  const rig = await Rig.start(t, { destinations: [destination(receiver.url)], database });
  await rig.pass(5_000);
  const now = clock.now();
  const verdict = { kind: 'retry', dueAt: now + 3_000, firstAt: now, marks: {} } as const;
  await store.settle(owner, [{ claim: claims[0]![0]!, verdict, attempts: [] }]);
  await store.leave(owner);
  await rig.pass(40_000);
  await rig.settled(1);
  t.equal(receiver.requests.length, 1);
  await rig.stopInTime();
});

t.test('keeps settlements made during a write when the lease is lost', async (t) => {
  const { clock, database, store } = await shared(t);
  const receiver = await Receiver.start(t);
  const gate = Promise.withResolvers<void>();
  let isGated = true;
  const gated = (inner: Store): WorkerStore =>
    new Proxy(inner, {
      get(target, verb, proxy) {
        const value = Reflect.get(target, verb, proxy);
        if (verb !== 'settle' || !isGated) return typeof value === 'function' ? value.bind(target) : value;
        return async (...args: Parameters<Store['settle']>) => {
          isGated = false;
          await gate.promise;
          return target.settle(...args);
        };
      },
    });
  const rig = await Rig.start(t, { destinations: [destination(receiver.url)], database, workerStore: gated });
  await rig.send(1);
  await rig.settled(1);
  await rig.calm();
  clock.stall(60_000);
  await rig.pass(10_000);
  // It went out again under the new lease, and its settlement waits behind the old one.
  await rig.settled(2);
  gate.resolve();
  await rig.pass(5_000);
  t.same(await store.backlog(), [{ destination: 'crm', pending: 0, dead: 0, queued: 0, heldOut: 0 }]);
  await rig.stopInTime();
});

t.test('lets attempts in flight end on a graceful stop, and sends nothing twice', async (t) => {
  const { database, store } = await shared(t);
  const open: ServerResponse[] = [];
  const quick = await Receiver.start(t);
  const slow = await Receiver.start(t, (response) => void open.push(response));
  const both = destination([quick.url, slow.url]);
  const rig = await Rig.start(t, { destinations: [both], database });
  await rig.send(60);
  await Promise.all([quick.received(40), slow.received(16)]);
  const stopped = rig.stop();
  await rig.calm();
  for (const response of open.splice(0)) response.end();
  await stopped;
  slow.answer = status(200);
  const next = await Rig.start(t, { destinations: [both], database });
  await next.passQuickly(30_000, () => quick.requests.length >= 60 && slow.requests.length >= 60);
  await next.calm();
  for (const receiver of [quick, slow]) {
    t.equal(receiver.requests.length, 60, 'every endpoint has its one first attempt');
    t.equal(new Set(keysOf(receiver)).size, 60);
  }
  t.same(await store.backlog(), [{ destination: 'crm', pending: 0, dead: 0, queued: 0, heldOut: 0 }]);
  await next.stopInTime();
});

t.test('stops even if the store accepts nothing any more', async (t) => {
  const { clock, database } = await shared(t);
  let isDown = false;
  const receiver = await Receiver.start(t);
  const rig = await Rig.start(t, {
    destinations: [destination(receiver.url)],
    database,
    workerStore: failing(() => isDown),
  });
  await rig.send(1);
  await rig.settled(1);
  isDown = true;
  let endedAt: number | null = null;
  void rig.worker.stop().then(() => {
    endedAt = clock.now();
  });
  while (endedAt === null) await rig.pass(1_000);
  t.ok(endedAt - Date.UTC(2026, 0, 1) <= 60_000, 'within a minute');
});
