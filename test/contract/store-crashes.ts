import type { Claim, Store } from '../../src/store/port.ts';
import type { Cases } from './store.ts';
import {
  accept,
  change,
  claim,
  claimOne,
  DELIVERED,
  type Fixture,
  ids,
  message,
  RELEASE,
  retryAt,
  START,
  settle,
} from './store-fixture.ts';

const TTL = 20_000;

/** One more process claims everything and dies; resolves to what it claimed. */
async function crash(
  fixture: Fixture,
  rescuer: Store,
  record: (claims: readonly Claim[]) => readonly Claim[] = () => [],
): Promise<readonly Claim[]> {
  const process = await fixture.open();
  const owner = await process.join(TTL);
  const claims = await claim(process, owner, { limit: 1_000 });
  await process.begin(owner, record(claims));
  await fixture.advance(TTL);
  await rescuer.rescue();
  return claims;
}

/** The counts that a look at all deliveries finds; they are given back. */
async function counts(store: Store): Promise<readonly number[]> {
  const owner = await store.join(TTL);
  const claims = [...(await claim(store, owner, { limit: 1_000 }))].sort((a, b) => a.body.localeCompare(b.body));
  await settle(store, owner, claims, RELEASE);
  await store.leave(owner);
  return claims.map(({ crashes }) => crashes);
}

const all = (claims: readonly Claim[]) => claims;
const named = (body: string) => (claims: readonly Claim[]) => claims.filter((each) => each.body === body);

export const crashCases: Cases = {
  'counts the first abnormal end for all claims, later ones for recorded posts only': async (t, store, fixture) => {
    await accept(store, message({ body: '"a"' }), message({ body: '"b"' }), message({ body: '"c"' }));
    t.same(await counts(store), [0, 0, 0]);
    await crash(fixture, store, named('"b"'));
    t.same(await counts(store), [1, 1, 1], 'nobody had cause to record anything');
    await crash(fixture, store, named('"b"'));
    t.same(await counts(store), [1, 2, 1]);
    await crash(fixture, store);
    t.same(await counts(store), [1, 2, 1], 'however often the process ends');
    await crash(fixture, store, named('"b"'));
    t.same(await counts(store), [1, 3, 1]);
  },
  'counts no abnormal end for unclaimed deliveries': async (t, store, fixture) => {
    await accept(store, message({ destinations: ['lake'] }));
    await crash(fixture, store);
    await crash(fixture, store);
    const owner = await store.join(TTL);
    t.equal((await claim(store, owner, { destination: 'lake' }))[0]?.crashes, 0);
  },
  'clears the count after a try, keeps it after a release, and ends the recording after both': async (
    t,
    store,
    fixture,
  ) => {
    await accept(store, message());
    await crash(fixture, store);
    await crash(fixture, store, all);
    const owner = await store.join(TTL);
    const first = await claimOne(store, owner);
    await store.begin(owner, [first]);
    await settle(store, owner, [first], RELEASE);
    await crash(fixture, store);
    t.same(await counts(store), [2], 'it was given back before its post');
    const other = await store.join(TTL);
    const second = await claimOne(store, other);
    await store.begin(other, [second]);
    await settle(store, other, [second], retryAt(START));
    t.same(await counts(store), [0]);
    await crash(fixture, store);
    t.same(await counts(store), [1]);
  },
  'counts nothing for a clean end, whatever was recorded': async (t, store, fixture) => {
    await accept(store, message());
    await crash(fixture, store);
    const owner = await store.join(TTL);
    await store.begin(owner, [await claimOne(store, owner)]);
    await store.leave(owner);
    t.same(await counts(store), [1]);
    await crash(fixture, store);
    t.same(await counts(store), [1]);
  },
  'does not count abnormal ends for the claims of a live process that lost its lease': async (t, store, fixture) => {
    await accept(store, message());
    const owner = await store.join(TTL);
    await store.begin(owner, [await claimOne(store, owner)]);
    await fixture.advance(TTL);
    t.equal(await store.heartbeat(owner, TTL), false);
    const again = await store.join(TTL);
    await store.rescue();
    t.equal((await claimOne(store, again)).crashes, 0);
  },
  'records nothing for claims that another process holds': async (t, store, fixture) => {
    await accept(store, message());
    const [stale] = await crash(fixture, store);
    const owner = await store.join(TTL);
    await store.begin(owner, stale ? [stale] : []);
    await crash(fixture, store);
    t.same(await counts(store), [1]);
  },
  'supersedes a counted change by a newer one, which starts at zero': async (t, store, fixture) => {
    await accept(store, change('k', { body: '"old"' }));
    await crash(fixture, store);
    await crash(fixture, store, all);
    await accept(store, change('k', { body: '"new"' }));
    const owner = await store.join(TTL);
    t.match(await claimOne(store, owner), { body: '"new"', crashes: 0 });
  },
  'starts a replayed letter at zero': async (t, store, fixture) => {
    await accept(store, message());
    await crash(fixture, store);
    const owner = await store.join(TTL);
    const counted = await claimOne(store, owner);
    const verdict = { kind: 'dead', reason: 'undeliverable', status: null, firstAt: null } as const;
    await settle(store, owner, [counted], verdict);
    const [letter] = await store.deadLetters({ limit: 10 });
    t.match(letter, { id: counted.id, reason: 'undeliverable' });
    await store.replay([{ id: counted.id, body: null }]);
    const again = await claimOne(store, owner);
    t.match(again, { id: counted.id, crashes: 0 });
    await settle(store, owner, [again], DELIVERED);
    t.same(ids(await claim(store, owner)), []);
  },
};
