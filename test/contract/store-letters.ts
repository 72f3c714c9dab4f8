import type { Claim, DeadLetterFilter, Store, Verdict } from '../../src/store/port.ts';
import type { Cases } from './store.ts';
import {
  accept,
  attempt,
  backlogOf,
  bodies,
  change,
  claim,
  claimOne,
  ids,
  message,
  REFUSED,
  retryAt,
  START,
  settle,
  settlement,
} from './store-fixture.ts';

const TTL = 20_000;
const HOUR = 3_600_000;

const bodiesOf = (all: readonly { readonly body: string }[]) => all.map(({ body }) => body);

async function letters(store: Store, filter: Partial<DeadLetterFilter> = {}) {
  return store.deadLetters({ limit: 100, ...filter });
}

/** Makes a dead letter of each message. */
async function bury(store: Store, ...given: Parameters<typeof message>[0][]) {
  const owner = await store.join(TTL);
  for (const over of given) {
    const dead = message(over);
    await accept(store, dead);
    for (const destination of dead.destinations) {
      await settle(store, owner, await claim(store, owner, { destination }), REFUSED);
    }
  }
}

export const letterCases: Cases = {
  'keeps the contents, reason and tries of a dead letter': async (t, store, fixture) => {
    const owner = await store.join(TTL);
    const given = message({ type: 'group', userId: 'ü', body: '{"x":1}', conflict: 'big|ü' });
    await accept(store, given);
    const first = await claimOne(store, owner);
    await settle(store, owner, [first], { kind: 'retry', dueAt: START, firstAt: START - 5, marks: {} });
    await fixture.advance(1_000);
    const verdict = { kind: 'dead', reason: 'refused', status: null, firstAt: START - 5 } as const;
    await store.settle(owner, [settlement(await claimOne(store, owner), verdict, [attempt()])]);
    t.same(await letters(store), [
      {
        id: first.id,
        destination: 'crm',
        source: 'shop',
        type: 'group',
        userId: 'ü',
        messageId: given.messageId,
        reason: 'refused',
        status: null,
        attempts: 2,
        firstAt: START - 5,
        lastAt: START + 1_000,
        body: '{"x":1}',
        conflict: 'big|ü',
      },
    ]);
  },
  'counts no attempt for a delivery that died untried': async (t, store) => {
    const owner = await store.join(TTL);
    await accept(store, message());
    const verdict = { kind: 'dead', reason: 'expired', status: null, firstAt: null } as const;
    await settle(store, owner, [await claimOne(store, owner)], verdict);
    t.match(await letters(store), [{ attempts: 0, firstAt: null, reason: 'expired' }]);
  },
  'finds dead letters by each field, page by page': async (t, store, fixture) => {
    await bury(store, { userId: 'u1', conflict: 'aud|u1' }, { userId: 'u2', source: 'web', destinations: ['lake'] });
    await fixture.advance(1_000);
    await bury(store, { userId: 'u3', type: 'page', conflict: 'audience|u3' }, { userId: 'u1' });
    const all = await letters(store);
    t.equal(all.length, 4);
    const counts = await Promise.all(
      (
        [
          { destination: 'lake' },
          { destination: 'nowhere' },
          { source: 'web' },
          { reason: 'refused' },
          { reason: 'expired' },
          { type: 'page' },
          { userId: 'u1' },
          { conflictPrefix: 'aud|' },
          { conflictPrefix: 'aud' },
          { conflicts: ['aud|u1', 'aud|u', 'nobody|u1'] },
          { conflicts: [] },
          { since: START + 1_000 },
          { until: START + 1_000 },
          { ids: [all[0]?.id ?? '', all[3]?.id ?? '', 'of-another-store'] },
          { ids: [] },
          { limit: 3 },
        ] as const
      ).map(async (filter) => (await letters(store, filter)).length),
    );
    t.same(counts, [1, 0, 1, 4, 0, 1, 2, 1, 2, 1, 0, 2, 2, 2, 0, 3]);
    const paged: string[] = [];
    for (let page = await letters(store, { limit: 3 }); page.length > 0; ) {
      paged.push(...page.map(({ id }) => id));
      page = await letters(store, { limit: 3, after: page.at(-1)?.id ?? '' });
    }
    t.same(
      paged,
      all.map(({ id }) => id),
    );
  },
  'reports a conflict key as undelivered while waiting, in flight, dead or replayed, not once delivered': async (
    t,
    store,
  ) => {
    const owner = await store.join(TTL);
    const isThere = () => store.hasUndelivered('aud|');
    await accept(store, message({ conflict: 'audience|u1' }));
    await accept(store, message({ conflict: null }));
    t.notOk(await isThere(), 'others are');
    await settle(store, owner, await claim(store, owner), { kind: 'delivered' });
    await accept(store, message({ conflict: 'aud|u1' }));
    t.ok(await isThere());
    const claims = await claim(store, owner);
    t.ok(await isThere());
    await settle(store, owner, claims, REFUSED);
    t.ok(await isThere());
    await store.replay((await letters(store)).map(({ id }) => ({ id, body: null })));
    t.ok(await isThere());
    await settle(store, owner, await claim(store, owner), { kind: 'delivered' });
    t.notOk(await isThere());
  },
  'resends letters of an endpoint that refused everything in steps, unchanged and in order of acceptance': async (
    t,
    store,
    fixture,
  ) => {
    const owner = await store.join(TTL);
    const denied = (firstAt: number, marks = {}): Verdict => ({
      kind: 'dead',
      reason: 'refused',
      status: 401,
      firstAt,
      marks,
    });
    const deny = async (over: Parameters<typeof message>[0], verdict: Verdict) => {
      await accept(store, message(over));
      const claims = await claim(store, owner);
      await settle(store, owner, claims, verdict);
      await fixture.advance(1_000);
      return claims[0]?.id;
    };
    await deny({ body: '"before"' }, denied(START));
    const from = START + 1_000;
    const first = await deny({ body: '"1"', conflict: 'a|1' }, denied(from));
    await deny({ body: '"of its own fault"' }, REFUSED);
    await deny({ body: '"2"' }, denied(from, { e1: 'ok' }));
    await deny({ body: '"3"' }, denied(from));
    await accept(store, change('a|2', { body: '"held"' }));
    t.equal(await store.resend('nowhere', 0, null, 10), null);
    t.equal((await letters(store, { destination: 'crm' })).length, 5);
    const next = await store.resend('crm', from, null, 1);
    t.not(next, null);
    t.same(await backlogOf(store), { pending: 2, dead: 4 });
    t.equal(await store.resend('crm', from, next, 100), null);
    t.equal(await store.resend('crm', from, null, 100), null, 'none is left');
    const again: Claim[] = [];
    for (
      let one = await claim(store, owner, { limit: 1 });
      one.length > 0;
      one = await claim(store, owner, { limit: 1 })
    ) {
      again.push(...one);
    }
    t.same(bodies(again), ['"1"', '"2"', '"3"', '"held"']);
    t.equal(again[0]?.id, first);
    t.match(again.slice(0, 2), [
      { conflict: 'a|1', firstAt: from, acceptedAt: from, tries: 0, marks: {} },
      { conflict: null, firstAt: from, marks: { e1: 'ok' } },
    ]);
    t.same(bodiesOf(await letters(store)), ['"before"', '"of its own fault"']);
    t.same(await backlogOf(store), { pending: 4, dead: 2 });
  },
  'does not resend a letter whose key has a newer delivery': async (t, store) => {
    const owner = await store.join(TTL);
    await accept(store, change('a|1', { body: '"old"' }));
    const old = await claimOne(store, owner);
    await accept(store, change('a|1', { body: '"new"' }));
    await settle(store, owner, [old], { kind: 'dead', reason: 'refused', status: 404, firstAt: START, marks: {} });
    t.equal(await store.resend('crm', 0, null, 10), null);
    t.same(bodies(await claim(store, owner)), ['"new"']);
    t.same(await letters(store), []);
  },
  'replays a letter from the start with its id, and a changed one with a new id': async (t, store) => {
    await bury(store, { body: '"a"' }, { body: '"b"' });
    const [a, b] = await letters(store);
    const replays = [
      { id: a?.id ?? '', body: null },
      { id: b?.id ?? '', body: '"now"' },
      { id: 'nobody', body: null },
    ];
    t.equal(await store.replay(replays), 2);
    t.equal(await store.replay(replays), 0, 'again is harmless');
    t.same(await letters(store), []);
    const claims = await claim(store, await store.join(TTL));
    t.same(bodies(claims).toSorted(), ['"a"', '"now"']);
    t.ok(ids(claims).includes(a?.id ?? ''));
    t.notOk(ids(claims).includes(b?.id ?? ''));
    t.ok(claims.every(({ tries, firstAt }) => tries === 0 && firstAt === null));
    t.same(await backlogOf(store), { pending: 2, dead: 0 });
  },
  'remembers in a replay which endpoints took the letter, unless its body has changed': async (t, store, fixture) => {
    const owner = await store.join(TTL);
    const answers = { e1: 'ok', e2: 'refused' } as const;
    const retry = { ...retryAt(START), marks: answers };
    await accept(store, message({ body: '"refused"' }), message({ body: '"changed"' }));
    const refused = { kind: 'dead', reason: 'refused', status: 400, firstAt: START, answers } as const;
    await settle(store, owner, await claim(store, owner), refused);
    await accept(store, message({ body: '"given up"' }));
    await settle(store, owner, await claim(store, owner), retry);
    // Nothing is known of its last try.
    await settle(store, owner, await claim(store, owner), REFUSED);
    await accept(store, message({ body: '"expired"' }));
    await settle(store, owner, await claim(store, owner), retry);
    await fixture.advance(1_000);
    t.equal(await store.expire('crm', START, false, 10), 1);
    const replays = (await letters(store)).map(({ id, body }) => ({ id, body: body === '"changed"' ? '"now"' : null }));
    t.equal(await store.replay(replays), 4);
    const marks = new Map((await claim(store, owner)).map((each) => [each.body, each.marks]));
    for (const body of ['"refused"', '"given up"', '"expired"']) t.same(marks.get(body), { e1: 'ok' }, body);
    t.same(marks.get('"now"'), {});
  },
  'sends a letter once that two processes replay at once': async (t, store, fixture) => {
    await bury(store, ...Array.from({ length: 10 }, () => ({})));
    const replays = (await letters(store)).map(({ id }) => ({ id, body: null }));
    const other = await fixture.open();
    const queued = await Promise.all([store.replay(replays), other.replay(replays.toReversed())]);
    t.equal(queued[0] + queued[1], 10);
    t.same(await backlogOf(store), { pending: 10, dead: 0 });
  },
  'drops a replayed change if a newer one is pending': async (t, store) => {
    await bury(store, { conflict: 'k', body: '"old"' });
    const [letter] = await letters(store);
    const owner = await store.join(TTL);
    await accept(store, change('k', { body: '"new"' }));
    t.equal(await store.replay([{ id: letter?.id ?? '', body: null }]), 0);
    t.same(bodies(await claim(store, owner)), ['"new"']);
    t.same(await backlogOf(store), { pending: 1, dead: 0 });
  },
  'removes a dropped letter': async (t, store) => {
    await bury(store, {}, {});
    const [first, second] = await letters(store);
    t.equal(await store.drop([first?.id ?? '', 'nobody']), 1);
    t.same(ids(await letters(store)), [second?.id]);
  },
  'expires deliveries first tried before a time, and untried ones only on request': async (t, store, fixture) => {
    const owner = await store.join(10 * HOUR);
    await accept(store, message({ body: '"tried"' }));
    await settle(store, owner, [await claimOne(store, owner)], retryAt(START + 1_000));
    await accept(store, message({ body: '"untried"' }));
    await fixture.advance(HOUR);
    await accept(store, message({ body: '"recent"' }));
    t.equal(await store.expire('crm', START - 1, true, 10), 0);
    t.equal(await store.expire('crm', START, false, 10), 1);
    t.match(await letters(store), [{ body: '"tried"', reason: 'expired', attempts: 1, firstAt: START }]);
    t.equal(await store.expire('crm', START, true, 10), 1);
    t.equal(await store.expire('nowhere', START, true, 10), 0);
    t.same(bodies(await claim(store, owner)), ['"recent"']);
    t.same(await backlogOf(store), { pending: 1, dead: 2 });
  },
  'neither expires nor buries claimed deliveries': async (t, store, fixture) => {
    const owner = await store.join(10 * HOUR);
    await accept(store, message());
    await claimOne(store, owner);
    await fixture.advance(HOUR);
    t.equal(await store.expire('crm', START, true, 10), 0);
    t.equal(await store.bury('crm', 10), 0);
  },
  'makes dead letters of a removed destination, in steps': async (t, store) => {
    const owner = await store.join(TTL);
    const gone = Array.from({ length: 5 }, () => message({ destinations: ['gone'] }));
    await accept(store, ...gone, message({ lane: 'backfill', destinations: ['gone'] }), message());
    const [tried] = await claim(store, owner, { destination: 'gone', limit: 1 });
    await settle(store, owner, tried ? [tried] : [], retryAt(START + HOUR));
    t.equal(await store.bury('gone', 4), 4);
    t.equal(await store.bury('gone', 4), 2);
    t.equal(await store.bury('gone', 4), 0);
    t.same(await backlogOf(store, 'gone'), { pending: 0, dead: 6 });
    t.ok((await letters(store)).every(({ reason }) => reason === 'destination_removed'));
    t.same(await backlogOf(store), { pending: 1, dead: 0 });
  },
  'drops notices for a removed destination: a letter would keep the user id': async (t, store) => {
    const owner = await store.join(TTL);
    const notice = (userId: string, destinations: string[]) =>
      message({ type: 'delete', lane: 'deletion', userId, destinations });
    await accept(store, notice('tried', ['gone']));
    await settle(store, owner, await claim(store, owner, { destination: 'gone' }), retryAt(START + HOUR));
    await accept(store, notice('u1', ['gone']), notice('u2', ['gone', 'crm']), message({ destinations: ['gone'] }));
    t.equal(await store.bury('gone', 3), 3);
    t.equal(await store.bury('gone', 3), 1);
    t.equal(await store.bury('gone', 3), 0);
    t.match(await letters(store), [{ type: 'track', reason: 'destination_removed' }]);
    const row = async (name: string) => (await store.backlog()).find(({ destination }) => destination === name);
    t.match(await row('gone'), { pending: 0, dead: 1, queued: 0, heldOut: 0 });
    t.match(await row('crm'), { pending: 1, dead: 0, queued: 0, heldOut: 0 }, 'others still get theirs');
  },
  'does not expire notices that nobody serves: their four hours restart': async (t, store, fixture) => {
    const owner = await store.join(10 * HOUR);
    const notice = (body: string) => message({ type: 'delete', lane: 'deletion', body });
    await accept(
      store,
      notice('"one"'),
      notice('"two"'),
      message({ body: '"track"' }),
      message({ destinations: ['lake'] }),
    );
    await settle(store, owner, await claim(store, owner), retryAt(START + 1_000));
    await settle(store, owner, await claim(store, owner, { destination: 'lake' }), retryAt(START + 1_000));
    await accept(store, notice('"untried"'));
    await fixture.advance(HOUR);
    t.equal(await store.restNotices('nowhere', 10), 0);
    t.equal(await store.restNotices('crm', 1), 1);
    t.equal(await store.restNotices('crm', 10), 1);
    t.equal(await store.restNotices('crm', 10), 0);
    t.equal(await store.expire('crm', START, false, 10), 1);
    t.match(await letters(store), [{ body: '"track"', reason: 'expired' }]);
    t.equal(await store.expire('lake', START, false, 10), 1, 'those of others are left as they are');
    t.match(await store.backlog(), [
      { destination: 'crm', pending: 3, dead: 1, queued: 0 },
      { destination: 'lake', pending: 0, dead: 1, queued: 0 },
    ]);
    const claims = await claim(store, owner);
    t.same(bodies(claims).sort(), ['"one"', '"two"', '"untried"']);
    t.ok(claims.every(({ firstAt }) => firstAt === null));
    t.same(claims.map(({ tries }) => tries).sort(), [0, 1, 1], 'how often they were tried is still known');
  },
};
