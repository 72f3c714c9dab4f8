import t from 'tap';
import type { WorkerStore } from '../../src/deliver/worker-options.ts';
import { Receiver } from './helpers/receiver.ts';
import { destination, Rig } from './helpers/rig.ts';

const HOUR = 3_600_000;

t.test('a reloaded attempts.keep holds from the next housekeeping on', async (t) => {
  let keep = 2 * HOUR;
  const ages: number[] = [];
  const receiver = await Receiver.start(t);
  const rig = await Rig.start(t, {
    destinations: [destination(receiver.url)],
    attemptRetention: () => keep,
    workerStore: (store): WorkerStore =>
      Object.assign(Object.create(store), {
        prune(before: number, limit: number) {
          ages.push(rig.clock.now() - before);
          return store.prune(before, limit);
        },
      }),
  });
  await rig.passUntil(() => ages.includes(2 * HOUR));
  keep = HOUR;
  const before = ages.length;
  await rig.passUntil(() => ages.length > before);
  t.equal(ages.at(-1), HOUR);
  await rig.stopInTime();
});
