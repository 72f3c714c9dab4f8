import type { Regulation, Run, Store } from '../../src/store/port.ts';
import type { Cases } from './store.ts';
import {
  accept,
  attempt,
  audience,
  backlogOf,
  bodies,
  change,
  claim,
  codeOf,
  DELIVERED,
  leaseOf,
  message,
  REFUSED,
  run,
  START,
  settle,
  settlement,
} from './store-fixture.ts';

const LEASE = 'sync:big_spenders';

const regulation = (over: Partial<Regulation> = {}): Regulation => ({
  id: 'r1',
  type: 'DELETE_ONLY',
  status: 'INITIALIZED',
  sources: null,
  userIds: ['u1'],
  ...{ subjects: 1, hashes: [], told: null, partial: false, createdAt: START },
  finishedAt: null,
  ...over,
});

async function eraseAll(
  store: Store,
  users: readonly string[],
  sources: readonly string[] | null = null,
): Promise<number> {
  for (let cursor: string | null = null, steps = 0; steps < 50; steps += 1) {
    const step: Awaited<ReturnType<Store['erase']>> = await store.erase(
      { users: users, anonymous: [] },
      sources,
      cursor,
    );
    if (step.cursor === null) return step.inFlight;
    cursor = step.cursor;
  }
  throw new Error('erase comes to no end');
}

export const syncCases: Cases = {
  'gives a lease to one process until it is released or expires, with rising tokens': async (t, store, fixture) => {
    const other = await fixture.open();
    const first = await leaseOf(store);
    t.equal(await other.takeLease(LEASE, 30_000), null);
    t.ok(await other.takeLease('sync:another', 30_000));
    await fixture.advance(29_999);
    t.equal(await store.renewLease(first, 30_000), true);
    await fixture.advance(29_999);
    t.equal(await other.takeLease(LEASE, 30_000), null, 'it was renewed');
    await fixture.advance(2);
    const second = await leaseOf(other);
    t.ok(second.token > first.token);
    t.equal(await store.renewLease(first, 30_000), false);
    await store.releaseLease(first);
    t.equal(await store.takeLease(LEASE, 30_000), null, 'a stale fence releases nothing');
    await other.releaseLease(second);
    const third = await leaseOf(store);
    t.ok(third.token > second.token);
  },
  'keeps a released lease released when a late renewal arrives': async (t, store, fixture) => {
    const other = await fixture.open();
    const first = await leaseOf(store);
    await store.releaseLease(first);
    t.equal(await other.renewLease(first, 30_000), false);
    t.ok(await other.takeLease(LEASE, 30_000));
  },
  'gives a lease to one of many that ask at once': async (t, store, fixture) => {
    const stores = [store, await fixture.open(), await fixture.open()];
    for (let round = 0; round < 5; round += 1) {
      const taken = await Promise.all(stores.flatMap((each) => [0, 1].map(() => each.takeLease(`l${round}`, 1_000))));
      t.equal(taken.filter((fence) => fence !== null).length, 1);
    }
  },
  'saves a run, except for the cursor and the count that accept moves': async (t, store, fixture) => {
    const fence = await leaseOf(store);
    const first = run({ reason: 'ü "quoted"', destinations: ['crm'], sent: 3, cursor: '3' });
    await store.saveRun(first, fence, audience({ version: 1 }));
    t.same(await store.run('run-1'), first);
    const step = { run: 'run-1', fence, cursor: '9', epoch: 0 };
    await store.accept({ messages: [message(), message()], step });
    await store.saveRun(run({ state: 'done', finishedAt: START + 1, cursor: null, sent: 0 }), fence, audience());
    t.same(await store.run('run-1'), run({ state: 'done', finishedAt: START + 1, cursor: '9', sent: 5 }));
    const other = await fixture.open();
    t.same(await other.audience('big_spenders'), audience());
    t.same(await other.audiences(), [audience()]);
    t.equal(await other.run('nobody'), null);
    t.equal(await other.audience('nobody'), null);
  },
  'takes the run saved last for the newest, also after a clock that was 400 days ahead': async (t, store) => {
    const fence = await leaseOf(store);
    const ahead = START + 400 * 86_400_000;
    await store.saveRun(run({ id: 'c', startedAt: ahead, members: 9, state: 'done' }), fence, audience());
    for (const id of ['a', 'b']) await store.saveRun(run({ id, members: 7, state: 'done' }), fence);
    await store.saveRun(run({ id: 'c', startedAt: ahead, members: 9, state: 'done' }), fence);
    const listed = async (filter: object) => (await store.runs({ limit: 10, ...filter })).map(({ id }) => id);
    t.same(await listed({}), ['b', 'a', 'c']);
    t.same(await listed({ key: 'big_spenders', before: 'a' }), ['c']);
    t.match(await store.newestRuns(['big_spenders'], 1), new Map([['big_spenders', [{ id: 'b' }]]]));
    t.match(await store.lastSuccesses(), [{ members: 7 }]);
    await store.pruneRecords(ahead + 1, 0, 10);
    t.same(await listed({}), ['b'], 'keeps the newest');
  },
  'lists runs by key and state, newest first': async (t, store) => {
    const fence = await leaseOf(store);
    for (const [n, state] of (['done', 'held', 'sending'] as const).entries()) {
      await store.saveRun(run({ id: `run-${n}`, state, startedAt: START + n * 1_000 }), fence);
    }
    await store.saveRun(run({ id: 'else', key: 'vip', startedAt: START + 9_000 }), fence);
    const listed = async (filter: object) => (await store.runs({ limit: 10, ...filter })).map(({ id }) => id);
    t.same(await listed({}), ['else', 'run-2', 'run-1', 'run-0']);
    t.same(await listed({ key: 'big_spenders', limit: 2 }), ['run-2', 'run-1']);
    t.same(await listed({ states: ['done', 'held'] }), ['run-1', 'run-0']);
    t.same(await listed({ key: 'vip', states: ['held'] }), []);
    t.same(await listed({ states: [] }), []);
  },
  'forgets an audience under its fence only': async (t, store) => {
    const fence = await leaseOf(store);
    await store.saveRun(run(), fence, audience());
    t.equal(await codeOf(store.forgetAudience('big_spenders', { ...fence, token: fence.token + 1 })), 'fence_lost');
    t.equal((await store.audiences()).length, 1);
    await store.forgetAudience('big_spenders', fence);
    t.equal(await store.audience('big_spenders'), null);
    t.equal(await store.lastSequence('big_spenders'), audience().sequence);
    t.equal(await store.lastSequence('vip'), 0);
    await store.saveRun(run(), fence, audience({ sequence: 1 }));
    await store.forgetAudience('big_spenders', fence);
    t.equal(await store.lastSequence('big_spenders'), audience().sequence, 'and never less');
  },
  'keeps deletion requests, and lists them until they are over': async (t, store, fixture) => {
    // No hash has such a letter.
    const userIds = ['u1@example.com'];
    await store.saveRegulation(
      regulation({ id: 'later', createdAt: START + 5, userIds: ['ü', 'b'], sources: ['shop'] }),
    );
    await store.saveRegulation(regulation({ userIds }));
    await store.saveRegulation(regulation({ id: 'done', status: 'FINISHED' }));
    const other = await fixture.open();
    t.same(
      (await other.openRegulations()).map(({ id }) => id),
      ['r1', 'later'],
    );
    await store.saveRegulation(regulation({ status: 'RUNNING', userIds }));
    t.match(await other.regulation('r1'), { status: 'RUNNING', userIds, sources: null });
    await store.saveRegulation(regulation({ status: 'FINISHED', finishedAt: START + 9, userIds }));
    const over = await other.regulation('r1');
    t.match(over, { finishedAt: START + 9, userIds: [], subjects: 1, hashes: [/^[\w-]{43}$/] }, 'hashes stay');
    t.notOk(JSON.stringify(over).includes('u1@'));
    t.same(
      (await other.openRegulations()).map(({ id }) => id),
      ['later'],
    );
    t.equal(await other.regulation('nobody'), null);
  },
  'erases users from deliveries, dead letters and attempts, but not their deletion notice': async (t, store) => {
    const owner = await store.join(20_000);
    const fence = await leaseOf(store);
    await store.saveRun(run(), fence);
    await accept(store, message({ userId: 'u1' }), message({ userId: 'u2' }));
    const dead = await claim(store, owner);
    const failed = attempt({ outcome: 'refused', status: 400 });
    await store.settle(
      owner,
      dead.map((each) => settlement(each, REFUSED, [failed])),
    );
    await store.accept({
      messages: [change('k', { userId: 'u1' })],
      step: { run: 'run-1', fence, cursor: '1', epoch: 0 },
    });
    await accept(
      store,
      message({ userId: 'u2', body: '"keep"' }),
      message({ userId: 'u1', type: 'delete', lane: 'deletion', body: '"notice"' }),
      message({ userId: 'u3' }),
    );
    t.equal(await eraseAll(store, ['u1', 'u3']), 0);
    t.same(
      (await store.deadLetters({ limit: 10 })).map(({ userId }) => userId),
      ['u2'],
    );
    t.same(
      (await store.attempts({ limit: 10 })).map(({ userId }) => userId),
      ['u2'],
    );
    t.same(await backlogOf(store), { pending: 2, dead: 1 });
    t.same(await store.runProgress('run-1'), { deliveries: 1, untried: 0, delivered: 0, dead: 0, superseded: 1 });
    t.same(bodies(await claim(store, owner)), ['"notice"', '"keep"']);
  },
  'erases for some sources and leaves messages of the others': async (t, store) => {
    const owner = await store.join(20_000);
    await accept(store, message({ userId: 'u1', source: 'shop', body: '"shop"' }));
    await accept(store, message({ userId: 'u1', source: 'app', body: '"app"' }));
    t.equal(await eraseAll(store, ['u1'], ['elsewhere']), 0);
    t.same(await backlogOf(store), { pending: 2, dead: 0 });
    t.equal(await eraseAll(store, ['u1'], ['shop', 'elsewhere']), 0);
    const claims = await claim(store, owner);
    t.same(bodies(claims), ['"app"']);
    t.equal(await eraseAll(store, ['u1'], ['shop']), 0, 'what is in flight for another source is not waited for');
    t.equal(await eraseAll(store, ['u1'], ['app']), 1);
    await settle(store, owner, claims, REFUSED);
    t.equal(await eraseAll(store, ['u1'], ['shop']), 0);
    t.same(await backlogOf(store), { pending: 0, dead: 1 });
    await eraseAll(store, ['u1'], ['app']);
    t.same(await backlogOf(store), { pending: 0, dead: 0 });
  },
  'counts the deliveries of erased users in flight until they are settled': async (t, store) => {
    const owner = await store.join(20_000);
    await accept(store, message({ userId: 'u1' }), message({ userId: 'u2' }));
    const claims = await claim(store, owner);
    t.equal(await eraseAll(store, ['u1']), 1);
    t.same(await backlogOf(store), { pending: 2, dead: 0 });
    await settle(store, owner, claims, DELIVERED);
    t.equal(await eraseAll(store, ['u1']), 0);
  },
  'erases a change that waits for one in flight': async (t, store) => {
    const owner = await store.join(20_000);
    await accept(store, change('k', { userId: 'u1' }));
    const claims = await claim(store, owner);
    await accept(store, change('k', { userId: 'u1' }));
    t.equal(await eraseAll(store, ['u1']), 1);
    await settle(store, owner, claims, DELIVERED);
    t.same(bodies(await claim(store, owner)), []);
    t.same(await backlogOf(store), { pending: 0, dead: 0 });
  },

  async 'prunes old runs in steps, except unfinished, undelivered and newest ones'(t, store) {
    const fence = await leaseOf(store);
    const at = (hours: number) => START + hours * 3_600_000;
    const save = (id: string, hours: number, over: Partial<Run> = {}) =>
      store.saveRun(run({ id, state: 'done', startedAt: at(hours), ...over }), fence);
    for (let index = 0; index < 5; index += 1) await save(`old-${index}`, index);
    await save('undelivered', 5, { state: 'sending' });
    const step = { run: 'undelivered', fence, cursor: '1', epoch: 0 };
    await store.accept({ messages: [message()], step });
    await save('undelivered', 5);
    await save('held', 6, { state: 'held' });
    await save('failed', 7, { state: 'failed' });
    await save('newest of another', 1, { key: 'other' });
    await save('young', 20);
    const left = async () => (await store.runs({ limit: 100 })).map(({ id }) => id);
    t.equal(await store.pruneRecords(at(10), 0, 2), 2);
    t.equal((await left()).length, 8);
    for (let pruned = 2; pruned > 0; ) pruned = await store.pruneRecords(at(10), 0, 2);
    const kept = ['young', 'newest of another', 'held', 'undelivered'];
    t.same(await left(), kept);
    t.equal(await store.run('old-0'), null);
    t.same(await store.runProgress('old-0'), { deliveries: 0, untried: 0, delivered: 0, dead: 0, superseded: 0 });
    const [claimed] = await claim(store, await store.join(20_000));
    t.equal(claimed?.run, 'undelivered');
    await save('later', 21);
    t.same(await left(), ['later', ...kept], 'names that are gone make room for no others');
    t.same(
      (await store.runs({ key: 'big_spenders', states: ['held'], limit: 5 })).map(({ id }) => id),
      ['held'],
    );
    t.same(
      (await store.runs({ states: ['done'], limit: 2 })).map(({ id }) => id),
      ['later', 'young'],
    );
  },

  async 'prunes finished deletion requests, never open ones'(t, store) {
    const save = (id: string, status: Regulation['status'], createdAt: number) =>
      store.saveRegulation(regulation({ id, status, createdAt }));
    await save('old', 'FINISHED', START);
    await save('failed', 'FAILED', START + 1);
    await save('open', 'RUNNING', START + 2);
    await save('young', 'FINISHED', START + 1_000);
    t.equal(await store.pruneRecords(0, START + 500, 1), 1);
    t.equal(await store.pruneRecords(0, START + 500, 10), 1);
    t.equal(await store.pruneRecords(0, START + 500, 10), 0);
    const left = await Promise.all(['old', 'failed', 'open', 'young'].map((id) => store.regulation(id)));
    t.same(
      left.map((each) => each?.id ?? null),
      [null, null, 'open', 'young'],
    );
  },
};
