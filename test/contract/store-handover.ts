import type { NewMessage, Store } from '../../src/store/port.ts';
import type { Cases } from './store.ts';
import { accept, backlogOf, bodies, change, claim, DELIVERED, ids, message, REFUSED, settle } from './store-fixture.ts';

const TTL = 20_000;

/** Accepts messages, and claims for an owner what it has room for. */
const acceptFor = (store: Store, owner: number, room: Readonly<Record<string, number>>, ...messages: NewMessage[]) =>
  store.accept({ messages, step: null, take: { owner, room: new Map(Object.entries(room)) } });

export const handoverCases: Cases = {
  'frees messages for others if accepted while their owner leaves': async (t, store, fixture) => {
    const other = await fixture.open();
    const next = await other.join(TTL);
    for (let round = 0; round < 10; round += 1) {
      const owner = await store.join(TTL);
      const accepted = Array.from({ length: 4 }, async (_, n) => {
        for (let turn = 0; turn < n; turn += 1) await new Promise(setImmediate);
        return acceptFor(store, owner, { crm: 10 }, message());
      });
      for (let turn = 0; turn < round; turn += 1) await new Promise(setImmediate);
      await Promise.all([...accepted, store.leave(owner)]);
      const free = await claim(other, next);
      t.equal(free.length, 4, `round ${round}`);
      await settle(other, next, free, DELIVERED);
    }
  },
  'returns messages accepted for a process as claims, each body under its own id': async (t, store) => {
    const owner = await store.join(TTL);
    const given = Array.from({ length: 20 }, (_, n) =>
      message({ body: `"${n}"`, messageId: `id ${n}`, userId: n % 2 ? null : 'u\0', destinations: ['lake', 'crm'] }),
    );
    const known = given.filter((_, n) => n % 3 === 0);
    await accept(store, ...known);
    await settle(store, owner, await claim(store, owner), DELIVERED);
    const result = await acceptFor(store, owner, { crm: 100, lake: 100 }, ...given, ...given);
    t.match(result, { accepted: 13, duplicates: 27 });
    const { claims: all = [] } = result;
    t.equal(all.length, 26);
    const claims = all.filter(({ destination }) => destination === 'crm');
    t.equal(new Set(ids(claims)).size, 13);
    const [first] = claims;
    t.match(first, { destination: 'crm', source: 'shop', type: 'track', lane: 'live', tries: 0, firstAt: null });
    t.same(await claim(store, owner), [], 'nobody else gets them');
    await settle(store, owner, claims, REFUSED);
    const letters = await store.deadLetters({ limit: 100 });
    t.equal(letters.length, 13);
    for (const { id, body, messageId, userId } of letters) {
      t.match(
        claims.find((each) => each.id === id),
        { body, messageId, userId },
      );
      t.equal(messageId, `id ${JSON.parse(body)}`);
    }
    t.equal((await claim(store, owner, { destination: 'lake' })).length, 7, 'those that were known before');
    t.same(await backlogOf(store), { pending: 0, dead: 13 });
  },
  'claims no more than there is room for, the first of a batch first': async (t, store) => {
    const owner = await store.join(TTL);
    const { claims = [] } = await acceptFor(
      store,
      owner,
      { crm: 1 },
      message({ body: '"1"' }),
      message({ body: '"2"', destinations: ['crm', 'lake'] }),
    );
    t.same(bodies(claims), ['"1"']);
    t.same(bodies(await claim(store, owner)), ['"2"']);
    t.same(bodies(await claim(store, owner, { destination: 'lake' })), ['"2"']);
  },
  'does not claim a membership change on acceptance, since it can be superseded': async (t, store) => {
    const owner = await store.join(TTL);
    for (const body of ['"old"', '"new"']) {
      t.same((await acceptFor(store, owner, { crm: 10 }, change('k', { body }))).claims ?? [], []);
    }
    t.same(bodies(await claim(store, owner)), ['"new"']);
  },
  'returns concurrently accepted claims to the right caller': async (t, store) => {
    const owner = await store.join(TTL);
    // Few messages and many take different ways into a store.
    for (const size of [2, 10]) {
      const bodiesOf = (part: number) => Array.from({ length: size }, (_, n) => `"${part} ${n}"`);
      const results = await Promise.all(
        [0, 1, 2, 3].map((part) =>
          acceptFor(store, owner, { crm: part === 2 ? 0 : size }, ...bodiesOf(part).map((body) => message({ body }))),
        ),
      );
      t.same(
        results.map(({ claims = [] }) => bodies(claims)),
        [bodiesOf(0), bodiesOf(1), [], bodiesOf(3)],
      );
      t.same(bodies(await claim(store, owner)), bodiesOf(2));
    }
  },
  'does not claim messages that a full queue holds out': async (t, _, fixture) => {
    const store = await fixture.open({ maxQueued: 1 });
    const owner = await store.join(TTL);
    const results = [];
    for (const body of ['"1"', '"2"']) results.push(await acceptFor(store, owner, { crm: 10 }, message({ body })));
    t.same(
      results.map(({ claims = [] }) => bodies(claims)),
      [['"1"'], []],
    );
    t.same(await backlogOf(store), { pending: 1, dead: 1 });
  },
  'gives messages accepted for an expired lease to others': async (t, store, fixture) => {
    const owner = await store.join(TTL);
    const other = await fixture.open();
    const before = await acceptFor(store, owner, { crm: 10 }, message({ body: '"before"' }));
    t.same(bodies(before.claims ?? []), ['"before"']);
    await fixture.advance(TTL + 1);
    t.same((await acceptFor(store, owner, { crm: 10 }, message({ body: '"after"' }))).claims ?? [], []);
    const theirs = await other.join(TTL);
    await other.rescue();
    t.same([...bodies(await claim(other, theirs))].sort(), ['"after"', '"before"']);
  },
  'frees claims made on acceptance when a process leaves': async (t, store, fixture) => {
    const owner = await store.join(TTL);
    await acceptFor(store, owner, { crm: 10 }, message());
    await store.leave(owner);
    t.same((await acceptFor(store, owner, { crm: 10 }, message())).claims ?? [], []);
    const other = await fixture.open();
    t.equal((await claim(other, await other.join(TTL))).length, 2);
  },
};
