import type { Store } from '../../src/store/port.ts';
import type { Cases } from './store.ts';
import {
  accept,
  backlogOf,
  bodies,
  change,
  claim,
  claimOne,
  DELIVERED,
  heldOut,
  ids,
  leaseOf,
  message,
  REFUSED,
  RELEASE,
  retryAt,
  run,
  START,
  settle,
} from './store-fixture.ts';

const TTL = 20_000;
const HOUR = 3_600_000;
const BIG = 1_000;

const counters = async (store: Store, destination = 'crm') =>
  (await store.backlog()).find((row) => row.destination === destination);

const numbered = (count: number, over: Parameters<typeof message>[0] = {}) =>
  Array.from({ length: count }, (_, n) => message({ body: `"${n}"`, ...over }));

/** Takes and delivers all that is queued, until nothing is left anywhere. */
async function drain(store: Store, owner: number): Promise<string[]> {
  const taken: string[] = [];
  for (;;) {
    const claims = await claim(store, owner);
    taken.push(...bodies(claims));
    await settle(store, owner, claims, DELIVERED);
    if (claims.length === 0 && (await store.requeue('crm', BIG)) === 0) return taken;
  }
}

export const fullQueueCases: Cases = {
  'makes dead letters queue_full at a full destination, refuses nothing, and leaves others alone': async (
    t,
    _store,
    fixture,
  ) => {
    const store = await fixture.open({ maxQueued: 3 });
    const given = numbered(5, { destinations: ['crm', 'lake'] });
    t.match(await accept(store, ...given.slice(0, 2)), { accepted: 2 });
    t.match(await accept(store, ...given.slice(2)), { accepted: 3 });
    t.match(await accept(store, message({ destinations: ['mail'] })), { accepted: 1 });
    t.match(await counters(store), { pending: 3, dead: 2, queued: 3, heldOut: 2 });
    t.match(await counters(store, 'mail'), { pending: 1, dead: 0, queued: 1, heldOut: 0 });
    t.match(await accept(store, ...given), { accepted: 0, duplicates: 5 }, 'held out or not, it came once');
    t.match(await heldOut(store), [
      { body: '"3"', reason: 'queue_full', status: null, attempts: 0, firstAt: null, lastAt: START },
      { body: '"4"', messageId: given[4]?.messageId },
    ]);
    t.match(await counters(store), { pending: 3, dead: 2, queued: 3, heldOut: 2 });
  },
  'holds out concurrent messages only at destinations without room': async (t, _store, fixture) => {
    const store = await fixture.open({ maxQueued: 2 });
    const destinations = ['crm', 'lake', 'crm', 'crm', 'lake', 'crm', 'mail'];
    await Promise.all(destinations.map((name) => accept(store, message({ destinations: [name] }))));
    t.match(await counters(store), { pending: 2, heldOut: 2, dead: 2 });
    t.match(await counters(store, 'lake'), { pending: 2, heldOut: 0, dead: 0 });
    t.match(await counters(store, 'mail'), { pending: 1, heldOut: 0 });
  },
  'holds out new messages while letters are held out, to keep the order': async (t, _store, fixture) => {
    const store = await fixture.open({ maxQueued: 4 });
    const owner = await store.join(TTL);
    const given = numbered(12);
    await accept(store, ...given.slice(0, 6));
    const first = await claim(store, owner);
    await settle(store, owner, first, DELIVERED);
    await accept(store, ...given.slice(6, 9));
    t.match(await counters(store), { pending: 0, heldOut: 5 }, 'though there is room again');
    t.equal(await store.requeue('crm', BIG), 4);
    for (const each of given.slice(9)) await accept(store, each);
    const rest = await drain(store, owner);
    t.same([...bodies(first), ...rest], bodiesOf(given));
    t.same(await counters(store), { destination: 'crm', pending: 0, dead: 0, queued: 0, heldOut: 0 });
    await accept(store, message());
    t.match(await counters(store), { pending: 1, heldOut: 0 });
  },
  'requeues letters as stored: same id, body, source, lane and acceptance time, untried': async (
    t,
    _store,
    fixture,
  ) => {
    const store = await fixture.open({ maxQueued: 1 });
    const owner = await store.join(10 * HOUR);
    const given = message({ body: '{"x":"ü"}', type: 'group', userId: null, source: 'web', lane: 'backfill' });
    await accept(store, message());
    await accept(store, given);
    const [letter] = await heldOut(store);
    await fixture.advance(HOUR);
    await settle(store, owner, await claim(store, owner), DELIVERED);
    t.equal(await store.requeue('crm', BIG), 1);
    const { messageId } = given;
    t.match(await claimOne(store, owner), {
      id: letter?.id,
      messageId,
      body: '{"x":"ü"}',
      ...{ type: 'group', userId: null, source: 'web', lane: 'backfill', tries: 0, firstAt: null, acceptedAt: START },
    });
    t.same(await heldOut(store), []);
  },
  'requeues letters once a quarter of the queue is free, in steps, up to its limit': async (t, _store, fixture) => {
    const store = await fixture.open({ maxQueued: 8 });
    const owner = await store.join(TTL);
    await accept(store, ...numbered(20));
    t.equal(await store.requeue('crm', BIG), 0);
    const held = await claim(store, owner);
    await settle(store, owner, held.slice(0, 1), DELIVERED);
    t.equal(await store.requeue('crm', BIG), 0, 'one free place is not worth it');
    await settle(store, owner, held.slice(1, 4), DELIVERED);
    t.equal(await store.requeue('crm', 2), 2);
    t.equal(await store.requeue('crm', BIG), 2);
    t.match(await counters(store), { pending: 8, queued: 8, heldOut: 8, dead: 8 });
    t.equal(await store.requeue('nowhere', BIG), 0);
  },
  'requeues each letter once from two processes': async (t, _store, fixture) => {
    const store = await fixture.open({ maxQueued: 50 });
    const other = await fixture.open({ maxQueued: 50 });
    const owner = await store.join(TTL);
    await accept(store, ...numbered(40), ...Array.from({ length: 60 }, (_, n) => change(`k${n}`)));
    for (const turn of [0, 1, 2, 3]) {
      await settle(store, owner, await claim(store, owner), DELIVERED);
      await Promise.all([store.requeue('crm', 10), other.requeue('crm', 10), other.requeue('crm', 10)]);
      const { pending = 0, queued = 0, dead = 0, heldOut = 0 } = (await counters(store)) ?? {};
      t.same([queued, dead], [pending, heldOut], `turn ${turn}`);
      t.equal((await store.deadLetters({ limit: BIG })).length, heldOut);
    }
    await drain(store, owner);
    t.match(await counters(store), { pending: 0, dead: 0, queued: 0, heldOut: 0 });
  },
  'never counts or holds out a deletion notice': async (t, _store, fixture) => {
    const store = await fixture.open({ maxQueued: 1 });
    const notice = () => message({ type: 'delete', lane: 'deletion' });
    await accept(store, notice(), notice());
    t.match(await counters(store), { pending: 2, queued: 0 });
    await accept(store, message(), notice(), message());
    await accept(store, notice());
    t.match(await counters(store), { pending: 5, queued: 1, heldOut: 1 });
    const owner = await store.join(TTL);
    const claims = await claim(store, owner);
    const notices = claims.filter(({ lane }) => lane === 'deletion');
    await settle(store, owner, notices.slice(0, 1), retryAt(START));
    await settle(store, owner, notices.slice(1, 2), REFUSED);
    await settle(store, owner, notices.slice(2), DELIVERED);
    t.match(await counters(store), { pending: 2, dead: 2, queued: 1, heldOut: 1 });
    await store.replay([{ id: notices[1]?.id ?? '', body: null }]);
    t.match(await counters(store), { pending: 3, dead: 1, queued: 1, heldOut: 1 });
  },
  'counts released deliveries towards the queue, but not retries': async (t, _store, fixture) => {
    const store = await fixture.open({ maxQueued: 3 });
    const owner = await store.join(TTL);
    await accept(store, ...numbered(3), message({ lane: 'backfill', destinations: ['lake'] }));
    const claims = await claim(store, owner);
    await settle(store, owner, claims.slice(0, 2), retryAt(START + 1_000));
    await settle(store, owner, claims.slice(2), RELEASE);
    t.match(await counters(store), { pending: 3, queued: 1 });
    await accept(store, ...numbered(2));
    t.match(await counters(store), { pending: 5, queued: 3, heldOut: 0 });
    await fixture.advance(1_000);
    const again = (await claim(store, owner)).filter(({ tries }) => tries > 0);
    await settle(store, owner, again.slice(0, 1), retryAt(START + HOUR));
    await settle(store, owner, again.slice(1), REFUSED);
    t.match(await counters(store), { pending: 4, queued: 3, dead: 1 });
  },
  'replays into a full queue, since dead letters were accepted once': async (t, _store, fixture) => {
    const store = await fixture.open({ maxQueued: 1 });
    const owner = await store.join(TTL);
    await accept(store, message());
    await settle(store, owner, [await claimOne(store, owner)], REFUSED);
    await accept(store, message());
    const [letter] = await store.deadLetters({ limit: 10 });
    t.equal(await store.replay([{ id: letter?.id ?? '', body: null }]), 1);
    t.match(await counters(store), { pending: 2, queued: 2, dead: 0 });
  },
  'lets a person requeue held-out letters, with a new body too, or drop them': async (t, _store, fixture) => {
    const store = await fixture.open({ maxQueued: 1 });
    const fence = await leaseOf(store);
    await store.saveRun(run(), fence);
    const changes = ['a', 'b', 'c', 'd'].map((key) => change(key, { body: `"${key}"` }));
    await store.accept({ messages: changes, step: { run: 'run-1', fence, cursor: '4', epoch: 0 } });
    const [b, c, d] = await heldOut(store);
    t.same(await store.runProgress('run-1'), { deliveries: 4, untried: 4, delivered: 0, dead: 0, superseded: 0 });
    const replays = [
      { id: b?.id ?? '', body: null },
      { id: c?.id ?? '', body: '"now"' },
    ];
    t.equal(await store.replay(replays), 2);
    t.equal(await store.replay(replays), 0);
    t.equal(await store.drop([d?.id ?? '']), 1);
    t.match(await counters(store), { pending: 3, queued: 3, dead: 0, heldOut: 0 });
    const owner = await store.join(TTL);
    const claims = await claim(store, owner);
    t.same([...bodies(claims)].sort(), ['"a"', '"b"', '"now"']);
    t.ok(ids(claims).includes(b?.id ?? ''));
    t.notOk(ids(claims).includes(c?.id ?? ''));
    await settle(store, owner, claims, DELIVERED);
    t.same(await store.runProgress('run-1'), { deliveries: 4, untried: 0, delivered: 3, dead: 1, superseded: 0 });
  },
  'replaces a queued or held-out change by a newer one': async (t, _store, fixture) => {
    const store = await fixture.open({ maxQueued: 2 });
    await accept(store, change('a', { body: '"a1"' }), change('b', { body: '"b1"' }));
    await accept(store, change('a', { body: '"a2"' }));
    t.match(await counters(store), { pending: 2, heldOut: 0 }, 'it fits where the older one was');
    await accept(store, change('c', { body: '"c1"' }), change('d', { body: '"d1"' }));
    await accept(store, change('c', { body: '"c2"' }), change('b', { body: '"b2"' }), change('b', { body: '"b3"' }));
    t.same(
      (await heldOut(store)).map(({ body }) => body),
      ['"d1"', '"c2"', '"b3"'],
    );
    t.match(await counters(store), { pending: 1, queued: 1, heldOut: 3, dead: 3 });
    t.same(await drain(store, await store.join(TTL)), ['"a2"', '"d1"', '"c2"', '"b3"']);
  },
  'keeps the order between a held-out change and an older one in flight': async (t, _store, fixture) => {
    for (const [index, verdict] of [DELIVERED, RELEASE, REFUSED, retryAt(START), null].entries()) {
      const store = await fixture.open({ maxQueued: 1 });
      const owner = await store.join(TTL);
      const key = `k${index}`;
      await accept(store, change(key, { body: '"old"' }));
      const old = await claimOne(store, owner);
      await accept(store, change(key, { body: '"new"' }));
      t.match(await counters(store), { pending: 1, heldOut: 1 });
      if (verdict) await settle(store, owner, [old], verdict);
      else await store.leave(owner);
      t.match(await counters(store), { pending: 0, queued: 0, dead: 1, heldOut: 1 }, `after ${verdict?.kind}`);
      const next = await store.join(TTL);
      t.same(await drain(store, next), ['"new"']);
      t.same(await store.deadLetters({ limit: 10 }), []);
    }
  },
  'makes a requeued letter wait for an older change in flight': async (t, _store, fixture) => {
    const store = await fixture.open({ maxQueued: 2 });
    const owner = await store.join(TTL);
    await accept(store, change('k', { body: '"old"' }), message({ body: '"other"' }));
    const [old, other] = (await claim(store, owner)).toSorted((a, b) => a.body.localeCompare(b.body));
    await accept(store, change('k', { body: '"new"' }));
    if (!old || other?.body !== '"other"') throw new Error('both were to be claimed');
    await settle(store, owner, [other], DELIVERED);
    t.equal(await store.requeue('crm', BIG), 1);
    t.same(bodies(await claim(store, owner)), []);
    await settle(store, owner, [old], retryAt(START));
    t.same(bodies(await claim(store, owner)), ['"new"']);
    t.match(await counters(store), { pending: 1, queued: 1, dead: 0, heldOut: 0 });
  },
  'leaves one letter of a key that two processes accept for a full destination at once': async (t, _store, fixture) => {
    const store = await fixture.open({ maxQueued: 1 });
    const other = await fixture.open({ maxQueued: 1 });
    await accept(store, message());
    for (let round = 0; round < 5; round += 1) {
      const batch = () => Array.from({ length: 10 }, (_, n) => change(`k${n}`));
      await Promise.all([accept(store, ...batch()), accept(other, ...batch().toReversed()), accept(store, ...batch())]);
      t.match(await counters(store), { pending: 1, queued: 1, dead: 10, heldOut: 10 });
      t.equal(new Set((await heldOut(store)).map(({ conflict }) => conflict)).size, 10);
    }
  },
  'counts held-out letters as untried in the progress of a run until they are given up': async (t, _store, fixture) => {
    const store = await fixture.open({ maxQueued: 2 });
    const fence = await leaseOf(store, 'sync:big_spenders', 10 * HOUR);
    await store.saveRun(run(), fence);
    await store.saveRun(run({ id: 'run-2', startedAt: START + 1 }), fence);
    const step = { run: 'run-1', fence, cursor: '1', epoch: 0 };
    const keys = ['a', 'b', 'superseded', 'erased', 'expired', 'requeued'];
    const users = keys.map((key) => change(key, { userId: key }));
    await store.accept({ messages: users.slice(0, 5), step });
    await fixture.advance(HOUR);
    await store.accept({ messages: users.slice(5), step });
    await store.accept({ messages: [change('superseded')], step: { ...step, run: 'run-2' } });
    t.same(await store.runProgress('run-1'), { deliveries: 6, untried: 5, delivered: 0, dead: 0, superseded: 1 });
    for (let cursor: string | null = null; ; ) {
      ({ cursor } = await store.erase({ users: ['erased'], anonymous: [] }, null, cursor));
      if (cursor === null) break;
    }
    t.same(await store.runProgress('run-1'), { deliveries: 6, untried: 4, delivered: 0, dead: 0, superseded: 2 });
    const owner = await store.join(TTL);
    await settle(store, owner, await claim(store, owner), DELIVERED);
    t.equal(await store.expire('crm', START, true, BIG), 1);
    t.same(await store.runProgress('run-1'), { deliveries: 6, untried: 1, delivered: 2, dead: 1, superseded: 2 });
    t.equal(await store.requeue('crm', BIG), 2);
    await settle(store, owner, await claim(store, owner), DELIVERED);
    t.same(await store.runProgress('run-1'), { deliveries: 6, untried: 0, delivered: 3, dead: 1, superseded: 2 });
    t.same(await store.runProgress('run-2'), { deliveries: 1, untried: 0, delivered: 1, dead: 0, superseded: 0 });
    t.match(await counters(store), { pending: 0, dead: 1, queued: 0, heldOut: 0 });
  },
  'expires held-out letters like untried deliveries, and then leaves them to a person': async (t, _store, fixture) => {
    const store = await fixture.open({ maxQueued: 1 });
    const owner = await store.join(10 * HOUR);
    await accept(store, change('k', { body: '"old"' }), message({ body: '"1"' }));
    await fixture.advance(HOUR);
    await accept(store, message({ body: '"2"' }));
    t.equal(await store.expire('crm', START, false, BIG), 0);
    t.equal(await store.expire('crm', START, true, 1), 1, 'what is queued goes first');
    t.equal(await store.expire('crm', START, true, BIG), 1);
    t.match(await store.deadLetters({ reason: 'expired', limit: 10 }), [
      { body: '"old"' },
      { body: '"1"', attempts: 0, firstAt: null, lastAt: START + HOUR },
    ]);
    t.match(await counters(store), { pending: 0, dead: 3, queued: 0, heldOut: 1 });
    t.equal(await store.requeue('crm', BIG), 1);
    t.same(bodies(await claim(store, owner)), ['"2"']);
    t.equal(await store.requeue('crm', BIG), 0, 'what has expired does not come back by itself');
  },
  'does not expire a held-out change while the older one it replaced is in flight': async (t, _store, fixture) => {
    const store = await fixture.open({ maxQueued: 1 });
    const owner = await store.join(10 * HOUR);
    await accept(store, change('k', { body: '"old"' }));
    const old = await claimOne(store, owner);
    await accept(store, change('k', { body: '"new"' }));
    t.equal(await store.expire('crm', START + HOUR, true, BIG), 0);
    await settle(store, owner, [old], REFUSED);
    t.equal(await store.expire('crm', START + HOUR, true, BIG), 1);
    t.match(await store.deadLetters({ limit: 10 }), [{ body: '"new"', reason: 'expired' }]);
    t.match(await counters(store), { pending: 0, dead: 1, heldOut: 0 });
  },
  'buries the held-out letters of a removed destination with its deliveries': async (t, _store, fixture) => {
    const store = await fixture.open({ maxQueued: 2 });
    await accept(store, ...numbered(5));
    t.equal(await store.bury('crm', 4), 4);
    t.equal(await store.bury('crm', 4), 1);
    t.equal(await store.bury('crm', 4), 0);
    t.match(await counters(store), { pending: 0, dead: 5, queued: 0, heldOut: 0 });
    t.ok((await store.deadLetters({ limit: 10 })).every(({ reason }) => reason === 'destination_removed'));
  },
  'keeps held-out letters for a store that opens later with another limit': async (t, _store, fixture) => {
    const store = await fixture.open({ maxQueued: 1 });
    await accept(store, ...numbered(5));
    await store.close();
    const again = await fixture.open({ maxQueued: 3 });
    t.equal(again.maxQueued, 3);
    t.equal(await again.requeue('crm', BIG), 2);
    t.same(await drain(again, await again.join(TTL)), ['"0"', '"1"', '"2"', '"3"', '"4"']);
    t.same(await backlogOf(again), { pending: 0, dead: 0 });
  },
};

const bodiesOf = (messages: readonly { readonly body: string }[]) => messages.map(({ body }) => body);
