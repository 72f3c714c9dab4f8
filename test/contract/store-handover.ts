import type { Store } from '../../src/store/port.ts';
import type { Cases } from './store.ts';
import {
  accept,
  backlogOf,
  bodies,
  claim,
  DELIVERED,
  ids,
  message,
  REFUSED,
  RELEASE,
  settle,
} from './store-fixture.ts';

const TTL = 20_000;

/** An owner that has asked for more than there was: a store may hand it what is accepted from then on. */
async function hungry(store: Store, ttl = TTL): Promise<number> {
  const owner = await store.join(ttl);
  await claim(store, owner);
  return owner;
}

/** Claims until there is one: what another process gives back may take a moment. */
async function claimSome(store: Store, owner: number): Promise<readonly string[]> {
  for (let tries = 1; ; tries += 1) {
    const claims = await claim(store, owner);
    if (claims.length > 0 || tries === 500) return bodies(claims);
  }
}

export const handoverCases: Cases = {
  'what is accepted for a process that waits comes with its next claim, each body under its own id': async (
    t,
    store,
  ) => {
    const owner = await hungry(store);
    await claim(store, owner, { destination: 'lake' });
    const given = Array.from({ length: 20 }, (_, n) =>
      message({ body: `"${n}"`, messageId: `id ${n}`, userId: n % 2 ? null : 'u\0', destinations: ['lake', 'crm'] }),
    );
    const known = given.filter((_, n) => n % 3 === 0);
    await accept(store, ...known);
    await settle(store, owner, await claim(store, owner), DELIVERED);
    t.match(await store.accept({ messages: [...given, ...given], step: null }), { accepted: 13, duplicates: 27 });
    const claims = await claim(store, owner);
    t.equal(new Set(ids(claims)).size, 13);
    const [first] = claims;
    t.match(first, { destination: 'crm', source: 'shop', type: 'track', lane: 'live', tries: 0, firstAt: null });
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
    t.equal((await claim(store, owner, { destination: 'lake' })).length, 20);
    t.same(await backlogOf(store), { pending: 0, dead: 13 });
  },
  'a deletion notice goes before what was accepted earlier for a process that waits': async (t, store) => {
    const owner = await hungry(store);
    await accept(store, message({ lane: 'backfill', body: '"backfill"' }), message({ body: '"live"' }));
    await accept(store, message({ lane: 'deletion', type: 'delete', body: '"notice"' }));
    t.same(bodies(await claim(store, owner)), ['"notice"', '"live"', '"backfill"']);
  },
  'what is accepted for a process whose lease has ended goes to others': async (t, store, fixture) => {
    const owner = await hungry(store);
    const other = await fixture.open();
    await fixture.advance(TTL + 1);
    await accept(store, message());
    t.equal((await claim(other, await other.join(TTL))).length, 1);
    t.same(bodies(await claim(store, owner)), []);
  },
  'leaving frees what was accepted for a process and never asked for': async (t, store, fixture) => {
    const owner = await hungry(store);
    await accept(store, message());
    await store.leave(owner);
    await accept(store, message());
    const other = await fixture.open();
    t.equal((await claim(other, await other.join(TTL))).length, 2);
  },
  'what a process does not ask for goes to others while it lives': async (t, store, fixture) => {
    const owner = await hungry(store);
    await accept(store, message({ body: '"left"' }));
    const other = await fixture.open();
    const theirs = await other.join(TTL);
    await fixture.advance(5_001);
    t.equal(await store.heartbeat(owner, TTL), true);
    t.same(await claimSome(other, theirs), ['"left"']);
  },
  'what was given back comes again, though a process has newer ones in hand': async (t, store) => {
    const owner = await hungry(store);
    await accept(store, message({ body: '"old"' }));
    await settle(store, owner, await claim(store, owner), RELEASE);
    await accept(store, message({ body: '"new"' }));
    t.same([...bodies(await claim(store, owner))].sort(), ['"new"', '"old"']);
  },
};
