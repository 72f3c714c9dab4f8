import { RETRY_WINDOW } from '../../src/kernel/retry.ts';
import type { Cases } from './store.ts';
import { accept, claim, claimOne, leaseOf, message, retryAt, settle } from './store-fixture.ts';

const TTL = 20_000;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const YEAR = 365 * 24 * HOUR;
const STEPS = [HOUR, -HOUR, 5 * HOUR, -5 * HOUR, 30 * YEAR];

export const clockCases: Cases = {
  'moves no due time when a clock is set, and none into the past or the future': async (
    t,
    store,
    { clock, advance },
  ) => {
    const owner = await store.join(TTL);
    for (const step of STEPS) {
      await accept(store, message());
      const before = store.time.now();
      const untried = await claimOne(store, owner);
      await settle(store, owner, [untried], { ...retryAt(before + 10_000), firstAt: before });
      clock.step(step);
      t.ok(await store.heartbeat(owner, TTL), 'the lease lives');
      t.equal(await store.rescue(), 0);
      t.equal(store.time.now(), before);
      await advance(9_999);
      t.equal((await claim(store, owner)).length, 0);
      await advance(1);
      const { acceptedAt, firstAt } = await claimOne(store, owner);
      t.same([acceptedAt, firstAt], [before, before]);
    }
  },
  'holds and ends sync leases as usual when a clock is set': async (t, store, { clock, advance }) => {
    for (const step of STEPS) {
      const fence = await leaseOf(store);
      clock.step(step);
      t.equal(await store.takeLease(fence.lease, 30_000), null);
      await advance(30_000);
      t.ok(await store.takeLease(fence.lease, 30_000));
      await advance(30_000);
    }
  },
  'makes deliveries due now whose due time is years ahead: a clock was wrong': async (t, store, { advance }) => {
    const owner = await store.join(TTL);
    await accept(store, message(), message(), message());
    const [first, second, third] = await claim(store, owner);
    if (!first || !second || !third) throw new Error('three were accepted');
    const now = store.time.now();
    await settle(store, owner, [first], { ...retryAt(now + 2 * YEAR), firstAt: now });
    await settle(store, owner, [second], { kind: 'release', dueAt: now + 2 * YEAR });
    await settle(store, owner, [third], { ...retryAt(now + RETRY_WINDOW), firstAt: now });
    t.equal((await claim(store, owner)).length, 0);
    t.equal(await store.rescue(), 0);
    const again = await claim(store, owner);
    t.same(
      new Set(again.map(({ id }) => id)),
      new Set([first.id, second.id]),
      'and what waits as long as it may goes on waiting',
    );
    await advance(1);
  },
  'distrusts a clock that jumps years ahead, and trusts it after a day there': async (t, store, { clock, advance }) => {
    const trusts = () => store.trustsClocks(clock.now());
    t.ok(await trusts(), 'a new store has nothing to compare it with');
    clock.step(YEAR);
    t.notOk(await trusts());
    await advance(HOUR);
    clock.step(-YEAR);
    t.ok(await trusts(), 'it was wrong');
    clock.step(YEAR);
    t.notOk(await trusts());
    await advance(24 * HOUR - 1);
    t.notOk(await trusts());
    await advance(1);
    t.ok(await trusts());
    clock.step(-YEAR);
    t.ok(await trusts(), 'whatever is old by a clock that is behind');
  },
  'trusts time that passes between two checks, and a longer downtime after a day': async (
    t,
    store,
    { clock, advance },
  ) => {
    const trusts = () => store.trustsClocks(clock.now());
    for (const hours of [0, 1, 24, 23]) {
      await advance(hours * HOUR);
      t.ok(await trusts());
    }
    await advance(30 * 24 * HOUR);
    t.notOk(await trusts());
    await advance(24 * HOUR);
    t.ok(await trusts());
  },
  'trusts the slower of two process clocks that differ by more than a day': async (t, store, { clock, advance }) => {
    for (let day = 0; day < 3; day += 1) {
      t.ok(await store.trustsClocks(clock.now()));
      t.notOk(await store.trustsClocks(clock.now() + YEAR));
      await advance(24 * HOUR);
    }
  },
  'counts deliveries as served since the first of processes that took over in turn': async (t, store, { advance }) => {
    const begun = store.time.now();
    const first = await store.join(TTL);
    t.equal(await store.servedSince(), begun);
    await advance(10_000);
    await store.heartbeat(first, TTL);
    const second = await store.join(TTL);
    await store.leave(first);
    t.equal(await store.servedSince(), begun);
    await store.leave(second);
    await advance(50_000);
    const third = await store.join(TTL);
    t.equal(await store.servedSince(), begun, 'over a restart');
    await store.leave(third);
    await advance(5 * MINUTE);
    await store.join(TTL);
    t.equal(await store.servedSince(), store.time.now(), 'and not over a downtime');
  },
};
