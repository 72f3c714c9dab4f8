import type { MessagePage, MessageState, Store } from '../../src/store/port.ts';
import type { Cases } from './store.ts';
import {
  accept,
  attempt,
  audience,
  change,
  claim,
  claimOne,
  DELIVERED,
  message,
  REFUSED,
  retryAt,
  run,
  START,
  settle,
  settlement,
} from './store-fixture.ts';

const TTL = 20_000;

export const pagingCases: Cases = {
  'pages the attempt log newest first, each page after the last': async (t, store) => {
    const owner = await store.join(TTL);
    const users = ['u1', 'u2', 'u1', 'u2', 'u1'];
    await accept(store, ...users.map((userId, n) => message({ userId, messageId: `m-${n}` })));
    for (const each of await claim(store, owner)) await store.settle(owner, [settlement(each, DELIVERED, [attempt()])]);
    const found: string[] = [];
    for (let from: number | null = null; ; ) {
      const page = await store.attemptPage({ userId: 'u1', limit: 2 }, from);
      found.push(...page.attempts.map(({ messageId }) => messageId));
      if (page.next === null) break;
      from = page.next;
    }
    t.same(found, ['m-4', 'm-2', 'm-0']);
    t.same(await store.attemptPage({ userId: 'nobody', limit: 2 }, null), { attempts: [], next: null });
  },
  'lists and pages attempts in the order of logging': async (t, store, { clock }) => {
    const owner = await store.join(TTL);
    const given = ['slow', 'quick', 'last'].map((messageId) => message({ messageId }));
    await accept(store, ...given);
    const began = new Map([
      ['slow', 0],
      ['quick', 200],
      ['last', 300],
    ]);
    const claims = new Map((await claim(store, owner)).map((each) => [each.messageId, each]));
    for (const messageId of ['quick', 'slow', 'last']) {
      const at = clock.now() + Number(began.get(messageId));
      await store.settle(owner, [settlement(claims.get(messageId)!, DELIVERED, [attempt({ at })])]);
    }
    const order = ['last', 'slow', 'quick'];
    t.same(
      (await store.attempts({ limit: 9 })).map(({ messageId }) => messageId),
      order,
    );
    const { attempts, next } = await store.attemptPage({ limit: 2 }, null);
    const rest = await store.attemptPage({ limit: 2 }, next);
    t.same(
      [...attempts, ...rest.attempts].map(({ messageId }) => messageId),
      order,
    );
  },
  'returns one empty page of an empty attempt log': async (t, store) => {
    t.same(await store.attemptPage({ limit: 2 }, null), { attempts: [], next: null });
  },
  'pages dead letters from either end': async (t, store) => {
    const owner = await store.join(TTL);
    for (const n of [1, 2, 3, 4]) {
      await accept(store, message({ body: String(n), source: n === 2 ? 'web' : 'shop' }));
      await settle(store, owner, await claim(store, owner), REFUSED);
    }
    const all = async (newestFirst: boolean) => {
      const found: string[] = [];
      for (let after: string | null = null; ; ) {
        const given = after === null ? {} : { after };
        const { letters, next } = await store.deadLetterPage({ source: 'shop', limit: 2, ...given }, newestFirst);
        found.push(...letters.map(({ body }) => body));
        if (next === null) return found;
        after = next;
      }
    };
    t.same(await all(true), ['4', '3', '1']);
    t.same(await all(false), ['1', '3', '4']);
    t.same(await store.deadLetterPage({ limit: 2, after: 'of-another-store' }, true), { letters: [], next: null });
  },
  'lists messages and dead letters in the order of writing, whichever process wrote them': async (
    t,
    store,
    fixture,
  ) => {
    const stores = [store, await fixture.open()];
    const owners = await Promise.all(stores.map((each) => each.join(TTL)));
    const names = (kind: string) => Array.from({ length: 10 }, (_, n) => `${kind}-${n}`);
    const listed = async (state: MessageState) => {
      const found: string[] = [];
      for (let cursor: string | null = null; ; ) {
        const page: MessagePage = await store.messagePage({ state, limit: 3 }, cursor);
        found.push(...page.messages.map(({ messageId }) => messageId));
        if (page.next === null) return found.reverse();
        cursor = page.next;
      }
    };
    for (const [n, messageId] of names('kept').entries()) {
      const [by, owner] = [stores[n % 2] as Store, owners[n % 2] as number];
      await accept(by, message({ messageId }));
      await by.settle(owner, [settlement(await claimOne(by, owner), DELIVERED)], true);
    }
    t.same(await listed('delivered'), names('kept'));
    const all: string[] = [];
    for (const [n, messageId] of names('new').entries()) {
      // Changes of membership are accepted in another way.
      const of = n % 3 === 0 ? change(`key-${n}`, { messageId }) : message({ messageId });
      await accept(stores[n % 2] as Store, of);
      all.push(messageId);
    }
    // More than are numbered at once.
    const many = Array.from({ length: 70 }, (_, n) => message({ messageId: `many-${n}` }));
    await accept(store, ...many);
    all.push(...many.map(({ messageId }) => messageId));
    t.same(await listed('waiting'), all);
    await settle(store, owners[0] as number, await claim(store, owners[0] as number), REFUSED);
    t.same(await listed('dead'), all);
    const letters = await store.deadLetters({ limit: 100 });
    t.same(
      letters.map(({ messageId }) => messageId),
      all,
    );
  },
  'separates runs of the same moment, over pages too': async (t, store) => {
    const fence = await store.takeLease('sync:big_spenders', TTL);
    if (!fence) throw new Error('the lease is free');
    for (const id of ['a', 'b', 'c']) await store.saveRun(run({ id, state: 'done' }), fence);
    await store.saveRun(run({ id: 'd', state: 'done', startedAt: START + 1 }), fence);
    const pages: string[][] = [];
    for (let before: string | undefined; ; ) {
      const page = await store.runs({ limit: 2, ...(before === undefined ? {} : { before }) });
      if (page.length === 0) break;
      pages.push(page.map(({ id }) => id));
      before = page.at(-1)?.id;
    }
    t.same(pages, [
      ['d', 'c'],
      ['b', 'a'],
    ]);
  },
  'logs who did what and its outcome, newest first, and prunes the oldest': async (t, store, fixture) => {
    const deed = { who: 'cli:ada', action: 'run.approve', target: 'r1' };
    const first = await store.beginAudit({ ...deed, at: fixture.clock.now() });
    await fixture.advance(1_000);
    const second = await store.beginAudit({ who: 'airflow', action: 'audience.sync', target: null, at: START + 1_000 });
    await store.endAudit(first, 'done');
    const other = await fixture.open();
    const all = await other.audits({ limit: 10 });
    t.match(all, [
      { id: second, at: START + 1_000, who: 'airflow', action: 'audience.sync', target: null, outcome: null },
      { id: first, at: START, ...deed, outcome: 'done' },
    ]);
    const ids = async (filter: object) => (await store.audits({ limit: 10, ...filter })).map(({ id }) => id);
    t.same(await ids({ who: 'airflow' }), [second]);
    t.same(await ids({ action: 'run.approve' }), [first]);
    t.same(await ids({ since: START + 500 }), [second]);
    t.same(await ids({ before: second }), [first]);
    t.equal(await store.pruneAudits(START + 500, 10), 1);
    t.same(await ids({}), [second]);
  },
  'spends a pass once for all processes, and forgets it when it would have ended': async (t, store, fixture) => {
    const other = await fixture.open();
    const taken = await Promise.all([store, other, store].map((each) => each.spendPass('pass', START + 10, START)));
    t.equal(taken.filter(Boolean).length, 1);
    t.same(await Promise.all([other.isSpent('pass'), other.isSpent('other')]), [true, false]);
    t.equal(await other.spendPass('later', START + 20, START + 10), true);
    t.equal(await store.isSpent('pass'), false);
    t.equal(await store.isSpent('later'), true);
  },
  'finds the newest runs of many audiences at once': async (t, store) => {
    const fence = await store.takeLease('sync:big_spenders', TTL);
    if (!fence) throw new Error('the lease is free');
    for (const [n, id] of ['a', 'b', 'c', 'd'].entries()) {
      await store.saveRun(run({ id, key: 'vips', state: 'done', startedAt: START + (n >> 1) }), fence);
    }
    await store.saveRun(run({ id: 'e', key: 'new', state: 'staged', cursor: '3', sent: 7 }), fence);
    await store.saveRun(run({ id: 'f', key: 'other' }), fence);
    const found = await store.newestRuns(['new', 'nobody', 'vips'], 3);
    t.same(
      [...found].map(([key, runs]) => [key, runs.map(({ id }) => id)]),
      [
        ['new', ['e']],
        ['vips', ['d', 'c', 'b']],
      ],
    );
    t.match(found.get('new'), [{ cursor: '3', sent: 7 }], 'with how far each is');
    t.equal((await store.newestRuns([], 3)).size, 0);
  },
  'finds the last success of each audience, whatever followed': async (t, store) => {
    t.same(await store.lastSuccesses(), []);
    const fence = await store.takeLease('sync:big_spenders', TTL);
    if (!fence) throw new Error('the lease is free');
    const done = { state: 'done', members: 7, finishedAt: START + 5 } as const;
    await store.saveRun(run({ id: 'a', ...done, members: 3 }), fence, audience());
    await store.saveRun(run({ id: 'b', ...done, startedAt: START + 1 }), fence);
    await store.saveRun(run({ id: 'c', state: 'failed', startedAt: START + 2 }), fence);
    t.same(await store.lastSuccesses(), [{ key: 'big_spenders', members: 7, at: START + 5 }]);
  },
  'finds the oldest untried delivery by destination and lane until it is tried': async (t, store, fixture) => {
    const owner = await store.join(TTL);
    await accept(store, message({ lane: 'backfill' }), message({ destinations: ['lake'], lane: 'deletion' }));
    await fixture.advance(1_000);
    await accept(store, message());
    const oldest = async () =>
      new Map((await store.oldestUntried()).map(({ destination, since }) => [destination, since]));
    t.same(
      await oldest(),
      new Map([
        ['crm', START],
        ['lake', START],
      ]),
    );
    await settle(store, owner, await claim(store, owner), retryAt(START + 60_000));
    t.same(await oldest(), new Map([['lake', START]]), 'one that is tried again has had its first try');
  },
};
