import t from 'tap';
import type { WorkerStore } from '../../src/deliver/worker-options.ts';
import type { RollcallError } from '../../src/kernel/errors.ts';
import { silentLogger } from '../../src/kernel/log.ts';
import { Receiver } from './helpers/receiver.ts';
import { destination, Rig } from './helpers/rig.ts';

/** Each loop, a verb of the store that it asks, and what it says when that fails: the fault is that saying so fails too. */
const LOOPS = {
  claiming: ['claim', /Could not claim deliveries/],
  polling: ['poll', /did not answer/],
  housekeeping: ['rescue', /did not answer/],
  settling: ['settle', /Could not write settlements/],
} as const;

for (const [loop, [verb, saying]] of Object.entries(LOOPS)) {
  t.test(`reports once that ${loop} has failed, and still stops in order`, async (t) => {
    let isDown = false;
    const failed = Promise.withResolvers<RollcallError>();
    const failures: RollcallError[] = [];
    const receiver = await Receiver.start(t);
    const rig = await Rig.start(t, {
      destinations: [destination(receiver.url)],
      workerStore: (store): WorkerStore =>
        new Proxy(store, {
          get(target, name) {
            const value = Reflect.get(target, name);
            if (isDown && name === verb) return () => Promise.reject(new Error('The store is down.'));
            return typeof value === 'function' ? value.bind(target) : value;
          },
        }),
      log: {
        ...silentLogger,
        warn(_fields, text = '') {
          if (isDown && saying.test(text)) throw new TypeError('The log is broken.');
        },
      },
      onFatal(error) {
        failures.push(error);
        failed.resolve(error);
      },
    });
    isDown = true;
    await rig.send(1);
    let isOver = false;
    void failed.promise.then(() => {
      isOver = true;
    });
    while (!isOver) await rig.pass(1_000);
    t.match(await failed.promise, {
      code: 'internal_error',
      message: new RegExp(`fault in ${loop}: The log is broken`),
      cause: TypeError,
    });
    isDown = false;
    await rig.stopInTime();
    t.equal(failures.length, 1);
  });
}

t.test('polls less often while nothing waits and nobody shares the store', async (t) => {
  const receiver = await Receiver.start(t);
  let polls = 0;
  const rig = await Rig.start(t, {
    destinations: [destination(receiver.url)],
    workerStore: (store): WorkerStore =>
      Object.assign(Object.create(store), {
        poll: () => {
          polls += 1;
          return store.poll();
        },
      }),
  });
  const during = async (ms: number) => {
    const before = polls;
    await rig.pass(ms, 500);
    return polls - before;
  };
  await rig.pass(10_000);
  t.equal(await during(60_000), 20);
  const state = { endpoint: 'elsewhere', destination: 'other', pausedAt: rig.store.time.now(), deadSince: null };
  await rig.store.markEndpoint(state);
  await rig.pass(10_000);
  t.equal(await during(60_000), 60, 'an endpoint is closed');
  await rig.store.markEndpoint({ ...state, pausedAt: null });
  await rig.pass(10_000);
  t.equal(await during(60_000), 20);
  const owner = await rig.store.join(120_000);
  await rig.pass(10_000);
  t.equal(await during(60_000), 60, 'another process delivers');
  await rig.store.leave(owner);
});

t.test('posts nothing more after being given up', async (t) => {
  const receiver = await Receiver.start(t);
  const rig = await Rig.start(t, { destinations: [destination(receiver.url)] });
  await rig.send(1);
  await rig.settled(1);
  rig.worker.giveUp();
  await rig.send(3);
  await rig.pass(10_000);
  t.equal(receiver.requests.length, 1);
});
