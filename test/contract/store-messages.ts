import type { MessageFilter, MessagePage, MessageRecord, Store } from '../../src/store/port.ts';
import type { Cases } from './store.ts';
import {
  accept,
  attempt,
  backlogOf,
  bodies,
  change,
  claim,
  DELIVERED,
  ids,
  message,
  REFUSED,
  START,
  settle,
  settlement,
} from './store-fixture.ts';

const TTL = 60_000;

/** Every page of a search. */
async function search(store: Store, filter: Partial<MessageFilter> = {}): Promise<MessageRecord[]> {
  const found: MessageRecord[] = [];
  for (let cursor: string | null = null; ; ) {
    const { messages, next }: MessagePage = await store.messagePage({ limit: 2, ...filter }, cursor);
    found.push(...messages);
    cursor = next;
    if (cursor === null) return found;
  }
}

const track = (messageId: string, event: string, over = {}) =>
  message({ messageId, body: JSON.stringify({ type: 'track', event, properties: { n: 'event":"Seen"' } }), ...over });

/** Delivers what can be claimed, kept or not. */
async function deliver(store: Store, owner: number, keeps: boolean, destination = 'crm') {
  const claims = await claim(store, owner, { destination });
  await store.settle(
    owner,
    claims.map((each) => settlement(each, DELIVERED, [attempt(), attempt({ endpoint: 'e2' })])),
    keeps,
  );
  return claims;
}

export const messageCases: Cases = {
  'finds messages whether waiting, dead or delivered, kept or not': async (t, store) => {
    const owner = await store.join(TTL);
    await accept(store, track('logged', 'Seen'));
    await deliver(store, owner, false);
    await accept(store, track('kept', 'Seen', { userId: 'u2', destinations: ['crm', 'erp'] }));
    await deliver(store, owner, true);
    await accept(store, track('dead', 'Left'));
    await settle(store, owner, await claim(store, owner), REFUSED);
    await accept(store, track('waits', 'Seen'), message({ messageId: 'page', type: 'page' }));
    const shown = (all: readonly MessageRecord[]) =>
      all.map(({ messageId, destination, state }) => `${messageId} ${destination} ${state}`);
    const all = await search(store);
    t.same(shown(all), [
      ...['page crm waiting', 'waits crm waiting', 'kept erp waiting', 'dead crm dead'],
      ...['kept crm delivered', 'logged crm delivered'],
    ]);
    t.match(all[1], { event: 'Seen', type: 'track', source: 'shop', userId: 'u1', kept: true, at: START });
    t.match(all.at(-1), { event: null, kept: false });
    const found = async (filter: Partial<MessageFilter>) => shown(await search(store, filter));
    t.same(await found({ event: 'Seen' }), ['waits crm waiting', 'kept erp waiting', 'kept crm delivered']);
    t.same(await found({ userId: 'u2' }), ['kept erp waiting', 'kept crm delivered']);
    t.same(await found({ messageId: 'logged' }), ['logged crm delivered']);
    t.same(await found({ messageId: 'kept', state: 'delivered' }), ['kept crm delivered']);
    t.same(await found({ type: 'page' }), ['page crm waiting']);
    t.same(await found({ destination: 'erp' }), ['kept erp waiting']);
    t.same(await found({ state: 'dead' }), ['dead crm dead']);
    t.same(await found({ since: START + 1 }), []);
    t.equal((await found({ since: START, until: START + 1 })).length, 6);
    t.same(await found({ event: 'n' }), []);
    const delivered = all.find(({ messageId, state }) => messageId === 'kept' && state === 'delivered');
    t.match(await store.message(delivered?.id ?? ''), {
      messageId: 'kept',
      state: 'delivered',
      body: /"event":"Seen"/,
    });
    t.match(await store.message(all[0]?.id ?? ''), { state: 'waiting', event: null, conflict: null });
    t.match(await store.message(all[3]?.id ?? ''), { state: 'dead', event: 'Left' });
    t.equal(await store.message(all.at(-1)?.id ?? ''), null, 'its body is not there');
    t.equal(await store.message('nothing'), null);
  },
  'sends a kept message again under another id': async (t, store) => {
    const owner = await store.join(TTL);
    await accept(store, track('m1', 'Seen'), track('m2', 'Seen'));
    const [first, second] = await deliver(store, owner, true);
    t.equal(await store.deliverAgain([{ id: first?.id ?? '', body: null }]), 1);
    t.equal(await store.deliverAgain([{ id: second?.id ?? '', body: '{"type":"track","new":true}' }]), 1);
    t.equal(await store.deliverAgain([{ id: 'nothing', body: null }]), 0);
    t.same(await backlogOf(store), { pending: 2, dead: 0 });
    const again = await deliver(store, owner, true);
    t.same(bodies(again).toSorted(), [first?.body, '{"type":"track","new":true}'].toSorted());
    const known = new Set(ids([...(first ? [first] : []), ...(second ? [second] : [])]));
    t.notOk(again.some(({ id }) => known.has(id)));
    t.equal((await search(store, { messageId: 'm1' })).length, 2, 'both times');
    t.same(await store.deadLetters({ limit: 10 }), []);
  },
  'does not send a kept membership change again before a newer one': async (t, store) => {
    const owner = await store.join(TTL);
    await accept(store, change('k'));
    const [old] = await deliver(store, owner, true);
    await accept(store, change('k', { body: '"newer"' }));
    t.equal(await store.deliverAgain([{ id: old?.id ?? '', body: null }]), 0);
    t.same(bodies(await deliver(store, owner, true)), ['"newer"']);
    t.same(await backlogOf(store), { pending: 0, dead: 0 });
  },
  'never keeps deletion notices': async (t, store) => {
    const owner = await store.join(TTL);
    await accept(store, message({ type: 'delete', lane: 'deletion', userId: 'gone', body: '{"userId":"gone"}' }));
    const [notice] = await deliver(store, owner, true);
    t.equal(await store.message(notice?.id ?? ''), null);
    t.match(await search(store), [{ type: 'delete', userId: null, kept: false }]);
  },
  'deletes kept messages, aliases by either id, within the scope of the request': async (t, store) => {
    const owner = await store.join(TTL);
    const alias = {
      type: 'alias',
      userId: 'new',
      body: '{"type":"alias","Previous ID":"gone","User ID":"new"}',
    } as const;
    await accept(
      store,
      ...[message({ messageId: 'a', userId: 'gone' }), message({ messageId: 'b', userId: 'gone', source: 'web' })],
      ...[message({ messageId: 'c', ...alias }), message({ messageId: 'd', userId: 'stays' })],
    );
    const claims = await deliver(store, owner, true);
    const kept = async () =>
      (await Promise.all(claims.map(({ id }) => store.message(id))))
        .flatMap((each) => each?.messageId ?? [])
        .toSorted();
    t.same(await kept(), ['a', 'b', 'c', 'd']);
    const erase = async (sources: string[] | null) => {
      for (let cursor: string | null = null; ; ) {
        ({ cursor } = await store.erase({ users: ['gone'], anonymous: ['gone'] }, sources, cursor));
        if (cursor === null) return;
      }
    };
    await erase(['web']);
    t.same(await kept(), ['a', 'c', 'd']);
    await erase(null);
    t.same(await kept(), ['d']);
  },
  'does not send a kept message again while its user is being deleted': async (t, store) => {
    const owner = await store.join(TTL);
    await accept(store, message({ userId: 'gone' }));
    const [kept] = await deliver(store, owner, true);
    await store.saveRegulation({
      ...{ id: 'r', type: 'DELETE_ONLY', status: 'RUNNING', sources: null, userIds: ['gone'], subjects: 1 },
      ...{ hashes: [], told: null, partial: false, createdAt: START, finishedAt: null },
    });
    t.equal(await store.deliverAgain([{ id: kept?.id ?? '', body: null }]), 0);
    t.same([await backlogOf(store), await store.deadLetters({ limit: 10 })], [{ pending: 0, dead: 0 }, []]);
  },
  'prunes kept messages by delivery time, in steps': async (t, store, fixture) => {
    const owner = await store.join(TTL);
    await accept(store, message(), message(), message());
    await deliver(store, owner, true);
    await fixture.advance(1_000);
    await accept(store, message({ messageId: 'young' }));
    await deliver(store, owner, true);
    t.equal(await store.pruneDelivered(START + 10, 2), 2);
    t.equal(await store.pruneDelivered(START + 10, 2), 1);
    t.equal(await store.pruneDelivered(START + 10, 2), 0);
    const kept = (await search(store)).filter((each) => each.kept);
    t.match(kept, [{ messageId: 'young' }]);
    t.equal(await store.pruneDelivered(START + 1_000, 2), 1, 'nothing is kept any more');
  },
  'bounds kept messages by size, oldest first, in steps': async (t, store) => {
    const owner = await store.join(TTL);
    const body = JSON.stringify({ type: 'track', text: 'x'.repeat(10_000) });
    const keep = async (...messageIds: string[]) => {
      await accept(store, ...messageIds.map((messageId) => message({ messageId, body })));
      await deliver(store, owner, true);
    };
    const kept = async () =>
      (await search(store, { state: 'delivered' })).flatMap((each) => (each.kept ? each.messageId : []));
    t.equal(await store.boundDelivered(0, 3), 0, 'nothing is kept');
    await keep('a', 'b', 'c', 'd');
    t.equal(await store.boundDelivered(50_000, 3), 0, 'all have room');
    t.ok((await store.boundDelivered(25_000, 1)) > 0);
    t.same(await kept(), ['d', 'c', 'b']);
    while ((await store.boundDelivered(25_000, 3)) > 0);
    t.same((await kept()).length <= 2, true);
    await keep('e');
    while ((await store.boundDelivered(11_000, 1)) > 0);
    t.same(await kept(), ['e'], 'the newest stays');
    while ((await store.boundDelivered(0, 10)) > 0);
    t.same(await kept(), []);
    await keep('f');
    t.equal(await store.boundDelivered(11_000, 3), 0, 'and it begins anew');
  },
  'measures many kept messages in parts and drops the oldest': async (t, _, fixture) => {
    const store = await fixture.open({ maxQueued: 20_000 });
    const owner = await store.join(TTL);
    for (const count of [5_000, 5_050]) {
      await accept(store, ...Array.from({ length: count }, () => message({ body: '{}' })));
      const claims = await claim(store, owner, { limit: count });
      t.equal(claims.length, count);
      const settlements = claims.map((each) => settlement(each, DELIVERED));
      await store.settle(owner, settlements, true);
    }
    t.equal(await store.boundDelivered(10_050 * 302, 1_000), 0);
    let dropped = 0;
    for (let step = 1; step > 0; dropped += step) step = await store.boundDelivered(10_049 * 302, 4_000);
    t.ok(dropped >= 10_000);
    const { messages } = await store.messagePage({ state: 'delivered', limit: 100 }, null);
    t.equal(messages.filter(({ kept }) => kept).length, 50);
    t.equal(await store.boundDelivered(50 * 302, 1_000), 0, 'what is left has room');
  },
};
