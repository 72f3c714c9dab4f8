import t from 'tap';
import { RollcallError } from '../../src/kernel/errors.ts';
import { keepLease } from '../../src/kernel/keep-lease.ts';
import { codeOf } from '../contract/store-fixture.ts';
import { ManualClock } from '../helpers/clock.ts';

/** A lease of a store that gives it to others while `isTaken`. */
async function leaseOn(clock: ManualClock) {
  const state = { isTaken: false, asked: 0, error: null as RollcallError | null };
  const store = {
    takeLease: async (lease: string) => ({ lease, token: 1 }),
    renewLease: async () => {
      state.asked += 1;
      if (state.error) throw state.error;
      return !state.isTaken;
    },
    releaseLease: async () => undefined,
  };
  const lease = await keepLease(store, clock, 'sync:big_spenders');
  if (!lease) throw new Error('no lease');
  return { lease, state };
}

t.test('checks the lease of a sync after a suspension, before a snapshot moves', async (t) => {
  const clock = new ManualClock();
  const { lease, state } = await leaseOn(clock);
  await lease.check();
  t.equal(state.asked, 0, 'nothing is asked while all clocks agree');
  clock.suspend(60_000);
  state.isTaken = true;
  t.equal(await codeOf(lease.check()), 'fence_lost');
  t.ok(lease.signal.aborted);
});

t.test('keeps the lease after a step of the clock, or a suspension in which nobody took it', async (t) => {
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

t.test('loses the lease once its time is over if the store does not answer, but not if it is full', async (t) => {
  const clock = new ManualClock();
  const renewals = async (count: number) => {
    for (let n = 0; n < count; n += 1) {
      clock.advance(10_000);
      await new Promise(setImmediate);
    }
  };
  const { lease, state } = await leaseOn(clock);
  state.error = new RollcallError('store_full', 'The disk is full.');
  await renewals(30);
  t.notOk(lease.signal.aborted, 'nobody can take it either');
  t.equal(await codeOf(lease.check()), 'store_full', 'what no fence guards waits');
  state.error = null;
  await renewals(1);
  await lease.check();
  state.error = new RollcallError('store_failed', 'It is gone.');
  await renewals(2);
  t.notOk(lease.signal.aborted);
  await renewals(1);
  t.match(lease.signal.reason, { code: 'fence_lost', message: /the store does not answer/ });
});

t.test('loses a lease that another process took while the store was full', async (t) => {
  const clock = new ManualClock();
  const { lease, state } = await leaseOn(clock);
  state.error = new RollcallError('store_full', 'The disk is full.');
  clock.stall(60_000);
  t.equal(await codeOf(lease.check()), 'store_full');
  state.error = null;
  state.isTaken = true;
  t.equal(await codeOf(lease.check()), 'fence_lost');
});
