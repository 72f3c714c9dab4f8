import t from 'tap';
import { keepLease } from '../src/keep-lease.ts';
import { codeOf } from './contract/store-fixture.ts';
import { ManualClock } from './helpers/clock.ts';

/** A lease of a store that gives it to others while `isTaken`. */
async function leaseOn(clock: ManualClock) {
  const state = { isTaken: false, asked: 0 };
  const store = {
    takeLease: async (lease: string) => ({ lease, token: 1 }),
    renewLease: async () => {
      state.asked += 1;
      return !state.isTaken;
    },
    releaseLease: async () => undefined,
  };
  const lease = await keepLease(store, clock, 'sync:big_spenders');
  if (!lease) throw new Error('no lease');
  return { lease, state };
}

t.test('after a suspension a sync makes sure of its lease before it moves a snapshot', async (t) => {
  const clock = new ManualClock();
  const { lease, state } = await leaseOn(clock);
  await lease.check();
  t.equal(state.asked, 0, 'nothing is asked while all clocks agree');
  clock.suspend(60_000);
  state.isTaken = true;
  t.equal(await codeOf(lease.check()), 'fence_lost');
  t.ok(lease.signal.aborted);
});

t.test('a suspension during which nobody took the lease ends no sync, nor does a step of the clock', async (t) => {
  const clock = new ManualClock();
  const { lease, state } = await leaseOn(clock);
  clock.suspend(60_000);
  await lease.check();
  for (const hours of [1, -1, 5, -5]) {
    clock.jump(hours * 3_600_000);
    await lease.check();
  }
  t.notOk(lease.signal.aborted);
  t.ok(state.asked <= 3, 'a clock that is set back is no reason to ask');
  await lease.release();
});
