import type { Attempt, Regulation, Store, ToldPage, Verdict } from '../../src/store/port.ts';
import type { Cases } from './store.ts';
import {
  accept,
  attempt,
  backlogOf,
  bodies,
  change,
  claim,
  codeOf,
  DELIVERED,
  leaseOf,
  message,
  REFUSED,
  randomId,
  retryAt,
  run,
  START,
  settlement,
} from './store-fixture.ts';

const request = (userIds: readonly string[], over: Partial<Regulation> = {}): Regulation => ({
  ...{ id: 'r1', type: 'DELETE_ONLY', status: 'RUNNING', sources: null, userIds },
  ...{ subjects: userIds.length, hashes: [], told: null, partial: false, createdAt: START, finishedAt: null },
  ...over,
});

async function eraseAll(store: Store, users: readonly string[]): Promise<void> {
  for (let cursor: string | null = null; ; ) {
    cursor = (await store.erase({ users, anonymous: users }, null, cursor)).cursor;
    if (cursor === null) return;
  }
}

/** Settles all that can be claimed, kept or not. */
async function settleEach(
  store: Store,
  owner: number,
  verdict: Verdict,
  attempts: readonly Attempt[],
  keeps = false,
): Promise<void> {
  const claims = await claim(store, owner);
  const settlements = claims.map((each) => settlement(each, verdict, attempts));
  await store.settle(owner, settlements, keeps);
}

async function toldOf(store: Store, users: readonly string[], sources: readonly string[] | null = null) {
  const all: string[] = [];
  for (let cursor: string | null = null; ; ) {
    const page: ToldPage = await store.told(users, sources, cursor);
    all.push(...page.told.map(({ source, destination, user }) => `${source} ${destination} ${user}`));
    cursor = page.cursor;
    if (cursor === null) return [...new Set(all)].sort();
  }
}

export const deletionCases: Cases = {
  'raises the epoch once per deleting request, and settles it when the request is over': async (t, store, fixture) => {
    t.same(await store.deletions(null), { epoch: 0, settled: 0, unlogged: 0, some: false, suppresses: false });
    await store.saveRegulation(request(['u1'], { status: 'INITIALIZED' }));
    await store.saveRegulation(request(['u1'], { id: 'other', type: 'SUPPRESS_ONLY' }));
    t.same(await store.deletions(0), { epoch: 0, settled: 0, unlogged: 0, some: false, suppresses: false });
    await store.saveRegulation(request(['u1']));
    await store.saveRegulation(request(['u1'], { told: [] }));
    const other = await fixture.open();
    t.same(await other.deletions(0), { epoch: 1, settled: 0, unlogged: 0, some: true, suppresses: false });
    await store.saveRegulation(request(['u2'], { id: 'r2' }));
    await store.saveRegulation(request(['u2'], { id: 'r2', status: 'FINISHED' }));
    t.same(
      await other.deletions(1),
      { epoch: 2, settled: 0, unlogged: 0, some: true, suppresses: false },
      'an older one is still open',
    );
    await store.saveRegulation(request(['u1'], { status: 'FINISHED' }));
    t.same(await other.deletions(2), { epoch: 2, settled: 2, unlogged: 2, some: false, suppresses: false });
  },
  'says of whom the log is rid': async (t, store) => {
    const unlogged = async () => (await store.deletions(null)).unlogged;
    for (const id of ['r1', 'r2', 'r3']) await store.saveRegulation(request([id], { id }));
    t.equal(await unlogged(), 0);
    await store.setUnlogged(['r1', 'r2'], true);
    t.equal(await unlogged(), 2);
    await store.saveRegulation(request(['r2'], { id: 'r2', told: [] }));
    t.equal(await unlogged(), 2, 'what is saved again is as it was');
    await store.setUnlogged(['r2'], false);
    t.equal(await unlogged(), 1);
    for (const id of ['r2', 'r3']) await store.saveRegulation(request([id], { id, status: 'FINISHED' }));
    t.equal(await unlogged(), 3, 'a request that is over changes the log no more');
  },
  'rejects a step with an older epoch as a whole': async (t, store) => {
    const fence = await leaseOf(store);
    await store.saveRun(run(), fence);
    const step = { run: 'run-1', fence, cursor: '5', epoch: 0 };
    await store.saveRegulation(request(['u1']));
    t.equal(await codeOf(store.accept({ messages: [change('k')], step })), 'epoch_moved');
    t.same(await backlogOf(store), { pending: 0, dead: 0 });
    t.equal((await store.run('run-1'))?.cursor, null);
    await store.accept({ messages: [change('k')], step: { ...step, epoch: 1 } });
    t.same(await backlogOf(store), { pending: 1, dead: 0 });
  },
  'knows by hashes who is suppressed or was deleted since an epoch': async (t, store) => {
    await store.saveRegulation(request(['u1', 'ü "2"'], { sources: ['shop'] }));
    await store.saveRegulation(request(['u3'], { id: 'r3' }));
    await store.suppress(['u4'], ['shop'], true);
    t.match(await store.deletions(null), { suppresses: true });
    const users = ['u1', 'ü "2"', 'u3', 'u4', 'u5'];
    t.same(await store.excluded(users, 'shop', 0), ['u1', 'ü "2"', 'u3', 'u4']);
    t.same(await store.excluded(users, 'shop', 1), ['u3', 'u4']);
    t.same(await store.excluded(users, 'app', 0), ['u3']);
    t.same(await store.excluded([], 'app', 0), []);
    t.same(await store.deletedSince(users, 'shop', 0), ['u1', 'ü "2"', 'u3'], 'to be suppressed is another thing');
    t.same(await store.deletedSince(users, 'app', 1), ['u3']);
    await store.saveRegulation(request(['u3'], { id: 'r3', status: 'FINISHED' }));
    t.same(await store.excluded(users, 'app', 0), ['u3'], 'what was computed before comes in no more when it is over');
  },
  'drops hashes of deleted users with their request, unless an older run is unfinished': async (t, store) => {
    const fence = await leaseOf(store);
    await store.saveRegulation(request(['old'], { id: 'r0', createdAt: START - 1 }));
    await store.saveRegulation(request(['old'], { id: 'r0', createdAt: START - 1, status: 'FINISHED' }));
    await store.saveRun(run({ state: 'held', epoch: 1 }), fence);
    await store.saveRun(run({ id: 'run-2', state: 'sending', epoch: 2 }), fence);
    for (const [index, id] of ['r1', 'r2'].entries()) {
      const createdAt = START + index;
      await store.saveRegulation(request(['u1'], { id, createdAt }));
      await store.saveRegulation(request(['u1'], { id, createdAt, status: 'FINISHED' }));
    }
    const left = async () => {
      const records = await Promise.all(['r0', 'r1', 'r2'].map((id) => store.regulation(id)));
      return records.flatMap((each) => each?.id ?? []);
    };
    const users = ['old', 'u1'];
    t.equal(await store.pruneRecords(0, START + 9, 10), 1);
    t.same(await left(), ['r1', 'r2'], 'the run that is held was computed after the first');
    t.same(await store.excluded(users, 'shop', 0), ['u1']);
    await store.saveRun(run({ state: 'done', epoch: 1 }), fence);
    t.equal(await store.pruneRecords(0, START + 9, 1), 1, 'and the other after the second');
    t.same(await left(), ['r2']);
    await store.saveRun(run({ id: 'run-2', state: 'done', epoch: 2 }), fence);
    t.equal(await store.pruneRecords(0, START + 9, 10), 1);
    t.same(await left(), []);
    t.same(await store.excluded(users, 'shop', 0), []);
    t.same(
      await store.deletions(0),
      { epoch: 3, settled: 3, unlogged: 3, some: true, suppresses: false },
      'the epoch goes on',
    );
  },
  'does not replay a letter about a user who is being deleted': async (t, store) => {
    const owner = await store.join(20_000);
    const alias = '{"type":"alias","Previous ID":"u1","User ID":"u9"}';
    await accept(store, message({ userId: 'u1' }), message({ userId: 'u2' }));
    await accept(store, message({ userId: 'u9', type: 'alias', body: alias }));
    await accept(store, message({ userId: 'u1', type: 'delete', lane: 'deletion' }));
    const claims = await claim(store, owner);
    await store.settle(
      owner,
      claims.map((each) => settlement(each, REFUSED)),
    );
    const letters = (await store.deadLetters({ limit: 10 })).map(({ id }) => ({ id, body: null }));
    await store.saveRegulation(request(['u1']));
    t.equal(await store.replay(letters), 2, 'those of others, and the notice');
    t.same(await backlogOf(store), { pending: 2, dead: 2 });
    await eraseAll(store, ['u1']);
    t.same(await backlogOf(store), { pending: 2, dead: 0 });
  },
  'erases and excludes an alias if either of its ids matches': async (t, store) => {
    const owner = await store.join(20_000);
    const alias = (from: string, to: string) =>
      message({
        userId: to,
        type: 'alias',
        body: JSON.stringify({ type: 'alias', 'Previous ID': from, 'User ID': to }),
      });
    await accept(store, alias('ü "1"', 'u2'), alias('u3', 'ü "1"'), alias('u4', 'u5'));
    await eraseAll(store, ['ü "1"']);
    t.same(await backlogOf(store), { pending: 1, dead: 0 });
    await store.suppress(['ü "1"'], null, true);
    t.match(await accept(store, alias('ü "1"', 'u2'), alias('u4', 'u6')), { accepted: 1, suppressed: 1 });
    t.same(
      bodies(await claim(store, owner)).map((body) => JSON.parse(body)['User ID']),
      ['u5', 'u6'],
    );
  },
  'finds in the attempt log which destinations received data about users': async (t, store) => {
    const owner = await store.join(20_000);
    await accept(store, message({ userId: 'u1', destinations: ['crm'] }), message({ userId: 'u2' }));
    await settleEach(store, owner, DELIVERED, [attempt(), attempt({ endpoint: 'e2' })]);
    t.same(await toldOf(store, ['u1', 'nobody']), ['shop crm u1']);
    t.same(await toldOf(store, ['u1'], ['shop']), ['shop crm u1']);
    t.same(await toldOf(store, ['u1'], ['app']), []);
  },
  'finds them also in messages, dead letters and retries kept longer than the attempt log': async (t, store) => {
    const owner = await store.join(20_000);
    const alias = { type: 'alias', body: '{"type":"alias","Previous ID":"former","User ID":"u1"}' } as const;
    await accept(store, message({ userId: 'u1', ...alias }));
    await settleEach(store, owner, DELIVERED, [attempt()], true);
    await accept(store, message({ userId: 'u2', source: 'app' }));
    await settleEach(store, owner, REFUSED, [attempt()]);
    await accept(store, message({ userId: 'u3' }));
    await settleEach(store, owner, retryAt(START + 1_000), [attempt()]);
    await accept(store, message({ userId: 'untried' }), message({ userId: 'u1', destinations: ['erp'] }));
    t.equal(await store.prune(START + 60_000, 100), 3, 'the log has nothing any more');
    t.same(await toldOf(store, ['former', 'u2', 'u3', 'untried']), ['app crm u2', 'shop crm former', 'shop crm u3']);
    t.same(await toldOf(store, ['u1', 'u2'], ['shop']), ['shop crm u1']);
  },
  'accepts a deletion of an id longer than that of any message': async (t, store) => {
    const userId = randomId(5_000);
    const owner = await store.join(20_000);
    await store.saveRegulation(request([userId]));
    await store.suppress([userId], null, true);
    await eraseAll(store, [userId]);
    t.same(await toldOf(store, [userId]), []);
    const notice = message({ userId, type: 'delete', lane: 'deletion' });
    await accept(store, notice, { ...notice, messageId: 'dies' });
    const [one, other] = await claim(store, owner);
    if (!one || !other) throw new Error('two are queued');
    await store.settle(owner, [settlement(one, DELIVERED, [attempt()]), settlement(other, REFUSED, [attempt()])], true);
    t.match(await store.deadLetters({ limit: 10 }), [{ userId }]);
  },
  'logs the attempts of a notice without its user, also in responses': async (t, store) => {
    const owner = await store.join(20_000);
    await accept(store, message({ userId: 'ü "1"', type: 'delete', lane: 'deletion' }));
    const response = 'no ü "1", no ü \\"1\\", no %C3%BC%20%221%22';
    const claims = await claim(store, owner);
    await store.settle(
      owner,
      claims.map((each) => settlement(each, REFUSED, [attempt({ status: 404, response })])),
    );
    t.match(await store.attempts({ limit: 10 }), [{ userId: null, response: 'no [user], no [user], no [user]' }]);
    t.match(await store.deadLetters({ limit: 10 }), [{ userId: 'ü "1"' }]);
  },
  'drops the ids of a request before it is over, and keeps one hash key per store': async (t, store, fixture) => {
    await store.saveRegulation(request(['u1', 'u2']));
    await store.stripRegulation('r1');
    await store.stripRegulation('nobody');
    const stripped = await store.regulation('r1');
    t.match(stripped, { status: 'RUNNING', userIds: [], subjects: 2, hashes: [String, String] });
    await store.stripRegulation('r1');
    t.same(await store.regulation('r1'), stripped, 'again is harmless');
    const key = await store.hashKey();
    t.ok(key.length >= 32);
    t.equal(await (await fixture.open()).hashKey(), key);
    await store.scrub();
  },
};
