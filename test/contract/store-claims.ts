import type { Attempt, Claim, Store } from '../../src/store/port.ts';
import type { Cases } from './store.ts';
import {
  accept,
  attempt,
  backlogOf,
  bodies,
  claim,
  claimOne,
  DELIVERED,
  ids,
  message,
  RELEASE,
  retryAt,
  START,
  settle,
  settlement,
} from './store-fixture.ts';

const TTL = 20_000;

export const claimCases: Cases = {
  'never gives the same claim to two processes': async (t, store, fixture) => {
    const stores = [store, await fixture.open(), await fixture.open()];
    const owners = await Promise.all(stores.map((each) => each.join(TTL)));
    t.equal(new Set(owners).size, 3);
    await accept(store, ...Array.from({ length: 300 }, () => message()));
    const claimed: Claim[] = [];
    for (let round = 0; claimed.length < 300 && round < 100; round += 1) {
      const taken = await Promise.all(stores.map((each, i) => claim(each, owners[i] ?? 0, { limit: 17 })));
      claimed.push(...taken.flat());
    }
    t.equal(claimed.length, 300);
    t.equal(new Set(ids(claimed)).size, 300);
  },
  'lists attempts newest first, whichever process made them': async (t, store, fixture) => {
    const stores = [store, await fixture.open()];
    const owners = await Promise.all(stores.map((each) => each.join(TTL)));
    for (let n = 0; n < 8; n += 1) {
      const [by, owner] = [stores[n % 2] as Store, owners[n % 2] as number];
      await accept(by, message());
      await by.settle(owner, [
        settlement(await claimOne(by, owner), DELIVERED, [attempt({ at: fixture.clock.now() })]),
      ]);
      await fixture.advance(1_000);
    }
    const times = (await store.attempts({ limit: 8 })).map(({ at }) => at);
    t.same(
      times,
      times.toSorted((a, b) => b - a),
    );
  },
  'returns claims exactly as accepted, whatever their content and size': async (t, store) => {
    const texts = ['plain', 'naïve', 'Ω ≈ 1', '🛒 cart', ''];
    const sent = Array.from({ length: 40 }, (_, n) =>
      message({
        userId: n % 7 === 0 ? null : `user ${texts[n % 5]} ${n}`,
        messageId: `id ${texts[n % 3]} ${n}`,
        destinations: [n % 2 === 0 ? 'a' : 'b'],
        lane: n % 3 === 0 ? 'backfill' : 'live',
        conflict: n % 4 === 0 ? `key ${texts[n % 4]} ${n}` : null,
        body: JSON.stringify({ n, text: `${texts[n % 5]}`.repeat(n * 10) }),
      }),
    );
    await accept(store, ...sent);
    const owner = await store.join(TTL);
    const requests = ['a', 'none', 'b'].map((destination) => ({ destination, limit: 40, order: 'usual' as const }));
    const { claims } = await store.claim(owner, requests);
    t.same(
      claims.map(({ length }) => length),
      [20, 0, 20],
    );
    const fields = ({ source, messageId, type, userId, body, lane, conflict }: Claim | (typeof sent)[number]) =>
      JSON.stringify([source, messageId, type, userId, body, lane, conflict]);
    t.same(claims.flat().map(fields).sort(), sent.map(fields).sort());
    for (const { tries, firstAt, run, marks, crashes, acceptedAt } of claims.flat()) {
      t.same([tries, firstAt, run, marks, crashes, acceptedAt], [0, null, null, {}, 0, START]);
    }
  },
  'logs an attempt for each of its deliveries, also for those no longer held': async (t, store) => {
    await accept(store, ...Array.from({ length: 12 }, (_, n) => message({ userId: `käufer ${n}` })));
    await accept(store, message({ type: 'delete', lane: 'deletion', userId: 'gone' }));
    const owner = await store.join(TTL);
    const claims = await claim(store, owner);
    await settle(store, owner, claims.slice(0, 3), DELIVERED);
    const [failed, taken] = [
      attempt({ status: 503, outcome: 'retry', error: 'http_503', response: 'busy' }),
      attempt(),
    ];
    const shared = { failed: [failed], taken: [taken] };
    // They came to the same in one request, in two, and by themselves.
    await store.settle(owner, [
      ...claims.slice(0, 8).map((each) => settlement(each, DELIVERED, shared.taken)),
      ...claims.slice(8, 12).map((each) => settlement(each, retryAt(START + 1_000), shared.failed)),
      ...claims.slice(12).map((each) => settlement(each, DELIVERED, [attempt({ endpoint: 'e2' }), failed])),
    ]);
    const log = await store.attempts({ limit: 100 });
    const shown = (of: Claim, { endpoint, status, error, response }: Attempt) =>
      JSON.stringify([of.id, of.messageId, of.type === 'delete' ? null : of.userId, endpoint, status, error, response]);
    t.same(
      log
        .map(({ delivery, messageId, userId, endpoint, status, error, response }) =>
          JSON.stringify([delivery, messageId, userId, endpoint, status, error, response]),
        )
        .sort(),
      [
        ...claims.slice(0, 8).map((each) => shown(each, taken)),
        ...claims.slice(8, 12).map((each) => shown(each, failed)),
        ...claims.slice(12).flatMap((each) => [shown(each, attempt({ endpoint: 'e2' })), shown(each, failed)]),
      ].sort(),
    );
    t.same(await backlogOf(store), { pending: 4, dead: 0 });
  },
  'serves many destinations in one claim, each up to its own limit': async (t, store) => {
    const names = ['a', 'b', 'c', 'none'];
    await accept(store, ...['a', 'a', 'a', 'b', 'c', 'c'].map((name) => message({ destinations: [name] })));
    const owner = await store.join(TTL);
    const requests = names.map((destination) => ({ destination, limit: 2, order: 'usual' as const }));
    const { claims, nextDue } = await store.claim(owner, requests);
    t.same(
      claims.map((each) => each.map(({ destination }) => destination)),
      [['a', 'a'], ['b'], ['c', 'c'], []],
    );
    t.same([nextDue.get('b'), nextDue.get('none')], [null, null]);
    t.equal((await claim(store, owner, { destination: 'a' })).length, 1);
  },
  'claims deletion notices before live messages before backfills, oldest first': async (t, store, fixture) => {
    for (const lane of ['backfill', 'live', 'deletion'] as const) {
      for (const n of [1, 2]) {
        await accept(store, message({ lane, body: `"${lane} ${n}"` }));
        await fixture.advance(1);
      }
    }
    const owner = await store.join(TTL);
    const order = [
      ['"deletion 1"', '"deletion 2"', '"live 1"', '"live 2"', '"backfill 1"', '"backfill 2"'],
      ['"backfill 1"', '"backfill 2"'],
    ];
    for (const [index, wanted] of order.entries()) {
      const claims: Claim[] = [];
      for (let n = 0; n < wanted.length; n += 1) {
        claims.push(...(await claim(store, owner, { limit: 1, order: index === 0 ? 'usual' : 'backfills' })));
      }
      t.same(bodies(claims), wanted);
      await settle(store, owner, claims, RELEASE);
    }
  },
  'claims first tries before due retries, and retries first on request': async (t, store, fixture) => {
    const owner = await store.join(TTL);
    await accept(store, message({ body: '"retried"' }));
    await settle(store, owner, [await claimOne(store, owner)], retryAt(START + 1_000));
    await accept(store, message({ body: '"new"' }));
    await fixture.advance(1_000);
    const [first] = await claim(store, owner, { limit: 1 });
    t.equal(first?.body, '"new"');
    await settle(store, owner, first ? [first] : [], RELEASE);
    t.same(bodies(await claim(store, owner, { limit: 1, order: 'retries' })), ['"retried"']);
  },
  'holds a retry until it is due, announces the due time, and keeps its state': async (t, store, fixture) => {
    const owner = await store.join(TTL);
    await accept(store, message());
    const given = await claimOne(store, owner);
    const marks = { e1: 'refused' } as const;
    await store.settle(owner, [
      settlement(given, { kind: 'retry', dueAt: START + 5_000, firstAt: START - 7, marks }, [
        attempt({ outcome: 'retry' }),
      ]),
    ]);
    const request = { destination: 'crm', limit: 10, order: 'usual' } as const;
    t.same(await store.claim(owner, [request]), { claims: [[]], nextDue: new Map([['crm', START + 5_000]]) });
    await fixture.advance(4_999);
    t.same(bodies(await claim(store, owner)), []);
    await fixture.advance(1);
    const again = await claimOne(store, owner);
    t.match(again, { id: given.id, body: given.body, tries: 1, firstAt: START - 7, marks, acceptedAt: START });
  },
  'charges no try for a released delivery, and returns it at once or when due': async (t, store, fixture) => {
    const owner = await store.join(100_000);
    await accept(store, message());
    const given = await claimOne(store, owner);
    await settle(store, owner, [given], RELEASE);
    t.match(await claimOne(store, owner), { id: given.id, tries: 0, firstAt: null });
    await settle(store, owner, [given], { kind: 'release', dueAt: START + 60_000 });
    t.same(bodies(await claim(store, owner)), []);
    await fixture.advance(60_000);
    t.match(await claimOne(store, owner), { id: given.id, tries: 0 });
  },
  'ignores a settlement for a claim held by another process': async (t, store, fixture) => {
    const other = await fixture.open();
    const [mine, theirs] = [await store.join(TTL), await other.join(TTL)];
    await accept(store, message(), message());
    const [first, second] = await claim(store, mine);
    if (!first || !second) throw new Error('two were accepted');
    for (const verdict of [DELIVERED, RELEASE, retryAt(START + 1)]) {
      await settle(other, theirs, [first], verdict);
      t.same(await backlogOf(store), { pending: 2, dead: 0 });
      t.same(bodies(await claim(store, mine)), [], `${verdict.kind} frees nothing`);
    }
    await settle(other, theirs, [first], { kind: 'dead', reason: 'refused', status: 400, firstAt: null });
    t.same(await backlogOf(store), { pending: 2, dead: 0 });
    t.same(await store.deadLetters({ limit: 10 }), []);
    await settle(store, mine, [first, second], DELIVERED);
    t.same(await backlogOf(store), { pending: 0, dead: 0 });
    await settle(store, mine, [first, second], DELIVERED);
    t.same(await backlogOf(store), { pending: 0, dead: 0 }, 'settled once only');
  },
  'gives the claims of an expired lease to others and does not renew it': async (t, store, fixture) => {
    const other = await fixture.open();
    const [mine, theirs] = [await store.join(TTL), await other.join(TTL)];
    await accept(store, message());
    const stuck = await claimOne(store, mine);
    await fixture.advance(TTL - 1);
    t.equal(await other.heartbeat(theirs, TTL), true);
    t.equal(await other.rescue(), 0, 'not before its time');
    await fixture.advance(2);
    t.equal(await store.heartbeat(mine, TTL), false, 'a lease that ended is not renewed');
    t.equal(await other.rescue(), 1);
    t.match(await claimOne(other, theirs), { id: stuck.id, tries: 0 });
    await settle(store, mine, [stuck], DELIVERED);
    t.same(await backlogOf(store), { pending: 1, dead: 0 }, 'too late');
    t.equal(await other.rescue(), 0);
  },
  'gives no claims to a process whose lease has expired': async (t, store, fixture) => {
    const other = await fixture.open();
    const mine = await store.join(TTL);
    await fixture.advance(TTL + 1);
    const theirs = await other.join(TTL);
    await other.rescue();
    await accept(store, message());
    await claim(store, mine);
    await other.rescue();
    t.equal((await claim(other, theirs)).length, 1);
  },
  'keeps claims when the lease is renewed': async (t, store, fixture) => {
    const mine = await store.join(TTL);
    await accept(store, message());
    await claimOne(store, mine);
    for (let n = 0; n < 5; n += 1) {
      await fixture.advance(TTL - 1);
      t.equal(await store.heartbeat(mine, TTL), true);
    }
    t.equal(await store.rescue(), 0);
    t.same(bodies(await claim(store, await store.join(TTL))), []);
  },
  'lists as owners the processes with valid leases': async (t, store, fixture) => {
    const other = await fixture.open();
    const [mine, theirs] = [await store.join(TTL), await other.join(TTL)];
    const both = [
      { id: mine, roster: null },
      { id: theirs, roster: null },
    ];
    t.same(await store.owners(), both);
    t.same(await other.owners(), both);
    await fixture.advance(TTL - 1);
    await other.heartbeat(theirs, TTL);
    await fixture.advance(2);
    t.same(await store.owners(), both.slice(1));
    const again = await store.join(TTL);
    await other.leave(theirs);
    t.same(await other.owners(), [{ id: again, roster: null }], 'under a lease of its own');
    await store.leave(again);
    t.same(await store.owners(), []);
  },
  'frees held claims at once when a process leaves': async (t, store, fixture) => {
    const other = await fixture.open();
    const mine = await store.join(TTL);
    await accept(store, message(), message());
    await claim(store, mine);
    await store.leave(mine);
    t.equal(await store.heartbeat(mine, TTL), false);
    t.equal((await claim(other, await other.join(TTL))).length, 2);
  },
  'finds attempts by each field, newest first': async (t, store, fixture) => {
    const owner = await store.join(TTL);
    const given = [
      message({ userId: 'u1', messageId: 'first' }),
      message({ userId: 'u2', messageId: 'second', source: 'web', type: 'page' }),
    ];
    await accept(store, ...given);
    const claims = await claim(store, owner);
    const failed = attempt({ endpoint: 'e2', outcome: 'retry', status: 503, error: null, response: 'busy', ms: 3.4 });
    for (const each of claims) {
      await fixture.advance(1_000);
      const at = fixture.clock.now();
      await store.settle(owner, [settlement(each, DELIVERED, [attempt({ at }), { ...failed, at }])]);
    }
    const all = await store.attempts({ limit: 10 });
    t.equal(all.length, 4);
    t.ok(all.every(({ at }, i) => at <= (all[i - 1]?.at ?? Number.POSITIVE_INFINITY)));
    const second = claims.find(({ messageId }) => messageId === 'second');
    const [one] = await store.attempts({ messageId: 'second', outcome: 'retry', limit: 10 });
    t.same(one, {
      ...failed,
      ms: 3,
      at: one?.at,
      delivery: second?.id,
      destination: 'crm',
      source: 'web',
      type: 'page',
      userId: 'u2',
      messageId: 'second',
    });
    const counts = await Promise.all(
      [
        { endpoint: 'e1' },
        { userId: 'u1' },
        { delivery: second?.id ?? '' },
        { destination: 'crm' },
        { destination: 'nowhere' },
        { delivery: 'of-another-store' },
        { since: START + 2_000 },
        { limit: 3 },
      ].map(async (filter) => (await store.attempts({ limit: 10, ...filter })).length),
    );
    t.same(counts, [2, 2, 2, 4, 0, 0, 2, 3]);
  },
  'prunes the oldest attempts first, in steps': async (t, store, fixture) => {
    const owner = await store.join(1_000_000);
    await accept(store, message(), message(), message());
    for (const each of await claim(store, owner)) {
      await fixture.advance(1_000);
      await store.settle(owner, [settlement(each, DELIVERED, [attempt({ at: fixture.clock.now() })])]);
    }
    t.equal(await store.prune(START + 2_500, 1), 1);
    t.equal(await store.prune(START + 2_500, 10), 1);
    t.equal(await store.prune(START + 2_500, 10), 0);
    t.equal((await store.attempts({ limit: 10 })).length, 1);
  },
  'keeps the state of endpoints until they recover': async (t, store, fixture) => {
    const paused = { endpoint: 'e1', destination: 'crm', pausedAt: START, deadSince: null };
    const alive = { endpoint: 'e2', destination: 'crm', pausedAt: null, deadSince: null };
    const dead = { ...alive, deadSince: START + 1, deadCause: 'status_500', deadAnswer: 'Database is locked.' };
    await store.markEndpoint({ ...paused, pausedAt: 1 });
    await store.markEndpoint(paused);
    await store.markEndpoint(dead);
    const other = await fixture.open();
    const states = await other.endpoints();
    t.same(
      states.toSorted((a, b) => a.endpoint.localeCompare(b.endpoint)),
      [paused, dead],
    );
    await other.markEndpoint({ ...paused, pausedAt: null });
    t.same(await store.endpoints(), [dead]);
    const refusal = { since: START, from: START - 5, takenAt: null };
    await store.markEndpoint({ ...alive, refusal });
    t.same(await other.endpoints(), [{ ...alive, refusal }]);
    const owed = { since: null, from: START - 5, takenAt: START + 9 };
    await store.markEndpoint({ ...alive, refusal: owed });
    t.same(await other.endpoints(), [{ ...alive, refusal: owed }]);
    await store.markEndpoint({ ...alive, refusal: null });
    t.same(await other.endpoints(), []);
  },
};
