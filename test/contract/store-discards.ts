import type { Alert, Discard } from '../../src/store/port.ts';
import { ALERT_SOURCE } from '../../src/store/states.ts';
import type { Cases } from './store.ts';
import { accept, attempt, claimOne, leaseOf, message, REFUSED, run, START, settlement } from './store-fixture.ts';

const discard = (n: number, over: Partial<Discard> = {}): Discard => ({
  ...{ source: 'shop', code: 'event_not_defined', at: START + n, message: `{"type":"track","n":${n}}` },
  ...over,
});

export const discardCases: Cases = {
  'lists samples of discards newest first, of one source or all': async (t, store, fixture) => {
    await store.saveDiscards([discard(1), discard(2, { source: 'web', code: 'too_large', message: 'ü "\\ \u0000' })]);
    await store.saveDiscards([discard(3)]);
    const other = await fixture.open();
    const [third, second, first] = await other.discards({ limit: 10 });
    t.match([third, first], [discard(3), discard(1)]);
    t.match(second, { source: 'web', code: 'too_large', at: START + 2, message: /^ü "\\/ });
    t.same(await other.discards({ source: 'shop', limit: 1 }), [discard(3)]);
    t.same(await other.discards({ source: 'nowhere', limit: 10 }), []);
    const page = await other.discardPage({ limit: 2 }, null);
    t.same(page.discards, [third, second]);
    t.same(await other.discardPage({ limit: 2 }, page.next), { discards: [first], next: null });
  },
  'keeps the newest 200 discards of each source': async (t, store) => {
    const many = (from: number, to: number, source: string) =>
      Array.from({ length: to - from }, (_, index) => discard(from + index, { source }));
    await store.saveDiscards(many(0, 150, 'shop'));
    await store.saveDiscards([...many(0, 3, 'web'), ...many(150, 250, 'shop')]);
    const shop = await store.discards({ source: 'shop', limit: 1_000 });
    t.same([shop.length, shop[0]?.at, shop.at(-1)?.at], [200, START + 249, START + 50]);
    t.equal((await store.discards({ source: 'web', limit: 1_000 })).length, 3);
    await store.saveDiscards(many(1_000, 1_300, 'web'));
    t.equal((await store.discards({ source: 'web', limit: 1_000 })).at(-1)?.at, START + 1_100);
    t.equal((await store.discards({ limit: 1_000 })).length, 400);
  },
  'drops discards that name a deleted user, within the scope of the request': async (t, store) => {
    const naming = (event: string, source = 'shop') => discard(1, { source, message: JSON.stringify({ event }) });
    await store.saveDiscards([naming('Left by zoë "q"'), naming('u1'), naming('menu1'), naming('u1', 'web')]);
    const left = async () => (await store.discards({ limit: 10 })).map(({ message }) => JSON.parse(message).event);
    await store.forgetTexts([], null);
    t.equal((await left()).length, 4);
    await store.forgetTexts(['u1', 'somebody'], ['shop']);
    t.same((await left()).toSorted(), ['Left by zoë "q"', 'menu1', 'u1'], 'a short id stands in other words, too');
    await store.forgetTexts(['zoë "q"', 'u1'], null);
    t.same(await left(), ['menu1']);
  },
  'removes a deleted user from texts of runs, alerts, and messages about them': async (t, store) => {
    const [victim, other] = ['victim "v" <v@example.com>', 'someone else'];
    const text = `bad ${victim}, and ${other}`;
    const fence = await leaseOf(store, 'alerts');
    await store.saveRun(run({ id: 'r1', state: 'failed', reason: text }), fence);
    await store.saveRun(run({ id: 'r2', state: 'failed', reason: other }), fence);
    const about = { kind: 'endpointDead', subject: 'crm', destination: 'crm', since: null, message: text } as const;
    const now = store.time.now();
    const times = { firstAt: now, openedAt: now, goneAt: null, closedAt: null };
    const alert: Alert = { id: 'a', about, ...times, flaps: 0, opening: null, closing: null, isOver: false };
    await store.saveAlerts([alert], [], fence);
    const body = JSON.stringify({ text });
    const notice = (messageId: string) => message({ source: ALERT_SOURCE, messageId, userId: null, body });
    await accept(store, notice('m1'));
    const owner = await store.join(60_000);
    const claimed = await claimOne(store, owner);
    await store.settle(owner, [settlement(claimed, REFUSED, [attempt({ response: text })])], true);
    await accept(store, notice('m2'));
    let cursor: string | null = null;
    do ({ cursor } = await store.erase({ users: [victim], anonymous: [] }, null, cursor));
    while (cursor !== null);
    const dead = { endpoint: 'e', destination: 'crm', pausedAt: null, deadSince: now, deadCause: 'status_500' };
    await store.markEndpoint({ ...dead, deadAnswer: text });
    await store.forgetTexts([victim], null);
    t.same(await store.endpoints(), [dead], 'an answer that names the user is dropped');
    const bodies = [
      ...(await store.deadLetters({ limit: 9 })).map((letter) => letter.body),
      (await claimOne(store, owner)).body,
    ];
    t.equal(bodies.length, 2, 'the messages themselves stay');
    const kept = JSON.stringify([
      ...[bodies, await store.runs({ limit: 9 }), await store.alerts({ limit: 9 })],
      await store.attempts({ limit: 9 }),
    ]);
    t.notMatch(kept, 'victim');
    t.equal(kept.split(`bad [user], and ${other}`).length, 6, kept);
    t.match((await store.runs({ limit: 9 })).map(({ reason }) => reason).toSorted(), [/\[user\]/, other]);
  },
};
