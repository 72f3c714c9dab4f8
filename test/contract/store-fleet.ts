import type { Candidate, Fence, Orphan, Roster, Store } from '../../src/store/port.ts';
import type { Cases } from './store.ts';
import { accept, backlogOf, claim, codeOf, leaseOf, message, START } from './store-fixture.ts';

const TTL = 20_000;
const HOUR = 3_600_000;

function roster(...names: readonly string[]): Roster {
  const destinations = names.map((name) => ({ name, enabled: true, sources: ['shop'] }));
  return { destinations, removedAfter: HOUR };
}

async function member(store: Store, ...names: readonly string[]): Promise<number> {
  const owner = await store.join(TTL);
  await store.publish(owner, roster(...names));
  return owner;
}

const orphansLease = (store: Store) => leaseOf(store, 'orphans');
const times = (found: readonly Orphan[]) => found.map(({ destination, unknownFor }) => [destination, unknownFor]);
const to = (...destinations: readonly string[]) => message({ destinations });

async function orphaned(store: Store): Promise<{ readonly owner: number; readonly fence: Fence }> {
  const owner = await member(store, 'crm');
  await accept(store, to('gone'), to('gone'), to('crm'));
  const fence = await orphansLease(store);
  await store.countOrphans(fence, 0);
  return { owner, fence };
}

export const fleetCases: Cases = {
  'publishes what processes know, and shares one roster between equal ones': async (t, store, fixture) => {
    const [a, b] = [await member(store, 'crm', 'erp'), await member(await fixture.open(), 'crm', 'erp')];
    const silent = await store.join(TTL);
    const owners = await store.owners();
    const [first, second, third] = [a, b, silent].map((id) => owners.find((owner) => owner.id === id)?.roster);
    t.type(first, 'string');
    t.equal(second, first);
    t.equal(third, null);
    t.same([...(await store.rosters([first ?? '', 'none']))], [[first, roster('crm', 'erp')]]);
    await store.publish(b, roster('erp'));
    const changed = (await store.owners()).find(({ id }) => id === b)?.roster ?? '';
    t.not(changed, first);
    t.same((await store.rosters([changed])).get(changed), roster('erp'));
  },
  'reports a destination with pending deliveries that no live process knows as an orphan': async (
    t,
    store,
    fixture,
  ) => {
    const old = await member(store, 'erp', 'disabled');
    await accept(store, to('erp'), to('gone', 'crm'), to('gone'));
    await member(store, 'crm');
    t.same(await store.orphans(), [{ destination: 'gone', pending: 2, since: null, unknownFor: 0 }]);
    await fixture.advance(TTL / 2);
    await store.heartbeat(old, TTL);
    await fixture.advance(TTL / 2 + 1);
    t.same(times(await store.orphans()), [
      ['crm', 0],
      ['gone', 0],
    ]);
    await store.leave(old);
    t.same(times(await store.orphans()), [
      ['crm', 0],
      ['erp', 0],
      ['gone', 0],
    ]);
  },
  'measures the time of an orphan by counts, from the second on': async (t, store, fixture) => {
    const { fence } = await orphaned(store);
    t.same(await store.orphans(), [{ destination: 'gone', pending: 2, since: START, unknownFor: 0 }]);
    await fixture.advance(1_000);
    t.same(times(await store.countOrphans(fence, 1_000)), [['gone', 1_000]]);
    // A downtime, after which another process counts.
    await fixture.advance(HOUR);
    const next = await fixture.open();
    await member(next, 'crm');
    const taken = await orphansLease(next);
    t.same(await next.countOrphans(taken, 500), [{ destination: 'gone', pending: 2, since: START, unknownFor: 1_500 }]);
    t.equal(await codeOf(store.countOrphans(fence, 500)), 'fence_lost', 'no two count');
    t.same(times(await store.orphans()), [['gone', 1_500]]);
  },
  'ends the time of an orphan when a process knows it, however briefly': async (t, store) => {
    const { owner, fence } = await orphaned(store);
    await store.countOrphans(fence, HOUR);
    const other = await member(store, 'gone');
    await store.leave(other);
    t.same(times(await store.countOrphans(fence, 1_000)), [['gone', 0]]);
    t.same(times(await store.countOrphans(fence, 1_000)), [['gone', 1_000]]);
    await store.publish(owner, roster('crm', 'gone'));
    t.same(await store.countOrphans(fence, 1_000), []);
    await store.publish(owner, roster('crm'));
    t.same(times(await store.countOrphans(fence, 1_000)), [['gone', 0]]);
  },
  'counts nothing while a process has not published its destinations': async (t, store) => {
    const { fence } = await orphaned(store);
    const silent = await store.join(TTL);
    t.same(times(await store.countOrphans(fence, 1_000)), [['gone', 0]]);
    await store.publish(silent, roster());
    t.same(times(await store.countOrphans(fence, 1_000)), [['gone', 1_000]]);
  },
  'does not report a destination with nothing pending as an orphan': async (t, store) => {
    const { fence } = await orphaned(store);
    t.equal(await store.bury('gone', 10), 2);
    t.same(await store.countOrphans(fence, 1_000), []);
    await accept(store, to('gone'));
    t.same(times(await store.countOrphans(fence, 1_000)), [['gone', 0]], 'and its time begins anew');
  },
  'buries an orphan only after it was counted for long enough': async (t, store) => {
    const { owner, fence } = await orphaned(store);
    await store.countOrphans(fence, HOUR - 1);
    t.equal(await store.bury('gone', 10, HOUR), 0);
    t.equal(await store.bury('crm', 10, 0), 0, 'what is known is never an orphan');
    await store.countOrphans(fence, 1);
    t.equal(await store.bury('gone', 1, HOUR), 1);
    await store.publish(owner, roster('crm', 'gone'));
    t.equal(await store.bury('gone', 10, HOUR), 0, 'it came back meanwhile');
    t.same(await backlogOf(store, 'gone'), { pending: 1, dead: 1 });
    t.equal((await claim(store, owner, { destination: 'gone' })).length, 1);
  },
  'gives each changed configuration a higher generation, also one that returns': async (t, store, fixture) => {
    const first = await store.takeGeneration('a');
    t.equal(await store.takeGeneration('a'), first, 'a second process of it');
    t.equal(await (await fixture.open()).takeGeneration('b'), first + 1);
    t.equal(await store.takeGeneration('a'), first + 2, 'a rollback');
    t.equal(await store.takeGeneration('b'), first + 3, 'and forward again');
    const taken = await Promise.all(['c', 'd', 'e', 'f', 'g'].map((hash) => store.takeGeneration(hash)));
    t.equal(new Set(taken).size, 5, 'no two have the same');
  },
  'leaves an audience to the newest configuration that ran it, unless the definition is the same': async (t, store) => {
    const fence = await leaseOf(store);
    const one = (configuration: string, definition: string): Candidate => ({
      key: 'big_spenders',
      configuration,
      definition,
    });
    const admitted = async (...given: Parameters<Store['admit']>) => (await store.admit(...given)).admitted;
    const old = await store.takeGeneration('old');
    t.ok(await admitted(one('old', 'x'), fence));
    await store.takeGeneration('new');
    t.ok(await admitted(one('old', 'x'), fence), 'the newer has not run it yet');
    t.ok(await admitted(one('new', 'y'), null), 'a look');
    t.ok(await admitted(one('old', 'x'), null), 'changes nothing');
    t.ok(await admitted(one('new', 'y'), fence));
    t.same(await store.admit(one('old', 'x'), fence), {
      admitted: false,
      generation: old,
      lastGeneration: old + 1,
    });
    t.notOk(await admitted(one('unheard of', 'x'), fence), 'one without a generation is the oldest');
    t.ok(await admitted(one('old', 'y'), fence), 'the definition is the same');
    t.notOk(await admitted(one('old', 'x'), fence), 'which makes the older no newer');
    await store.forgetAudience('big_spenders', fence);
    t.notOk(await admitted(one('old', 'x'), fence), 'also when the audience is forgotten');
    await store.takeGeneration('old');
    t.ok(await admitted(one('old', 'x'), fence), 'a rollback');
    t.notOk(await admitted(one('new', 'y'), fence));
    const stale = { ...fence, token: fence.token - 1 };
    t.equal(await codeOf(store.admit(one('old', 'x'), stale)), 'fence_lost');
  },
};
