import { rmSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { Destination } from '../../src/destination.ts';
import type { Claim, Verdict } from '../../src/store/port.ts';
import { audience, createRig, destination, NO_GUARD, type Rig, type Told, trait } from './helpers/rig.ts';

const FILE = "select * from read_csv('users.csv', header = true, all_varchar = true)";
const NOON = '2026-03-01T12:00:00.000Z';
const ONE = '2026-03-01T13:00:00.000Z';
const TWO = '2026-03-01T14:00:00.000Z';

/** `user value reason`, and the hour of `changedAt`. */
function said(messages: readonly Told[] = []): readonly string[] {
  return messages
    .map(({ userId, traits, context: { personas } }) => {
      const value = JSON.stringify(Object.values(traits)[0]);
      return `${userId} ${value} ${personas['reason']} ${String(personas['changedAt']).slice(11, 13)}`;
    })
    .toSorted();
}

async function heard(rig: Rig, name = 'crm', verdict?: (claim: Claim) => Verdict): Promise<readonly string[]> {
  return said((await rig.deliver(verdict)).get(name));
}

const members = (rig: Rig, ...users: readonly string[]) => rig.write('users', ['user_id', ...users]);
const scores = (rig: Rig, ...rows: readonly string[]) => rig.write('users', ['user_id,score', ...rows]);

async function createClub(t: Parameters<typeof createRig>[0], ...users: readonly string[]): Promise<Rig> {
  const rig = await createRig(t);
  members(rig, ...users);
  rig.config.audiences = [audience('club', FILE)];
  return rig;
}

/** A club of ann and bob at noon, of which crm knows. */
async function createKnownClub(t: Parameters<typeof createRig>[0]): Promise<Rig> {
  const rig = await createClub(t, 'ann', 'bob');
  await rig.sync.run();
  await rig.deliver();
  rig.setTime(ONE);
  return rig;
}

const set = (rig: Rig, ...destinations: readonly Destination[]) => {
  rig.config.destinations = [...destinations];
};
const off = (name: string): Destination => ({ ...destination(name), enabled: false });
const skipping = (name: string): Destination => ({ ...destination(name), backfill: 'skip' });

t.test('tells a first sync from later changes', async (t) => {
  const rig = await createClub(t, 'ann', 'bob');
  await rig.sync.run();
  t.same(await heard(rig), ['ann true first_sync 12', 'bob true first_sync 12']);
  rig.setTime(ONE);
  members(rig, 'bob', 'cid');
  const [report] = await rig.sync.run();
  t.same(report?.runs[0]?.reasons, { entered: 1, exited: 1 });
  t.same(await heard(rig), ['ann false exited 13', 'cid true entered 13']);
});

t.test('tells the first value of a trait from another one and from none', async (t) => {
  const rig = await createRig(t);
  scores(rig, 'ann,1', 'bob,1');
  rig.config.traits = [trait('score', FILE)];
  await rig.sync.run();
  await rig.deliver();
  scores(rig, 'ann,2', 'cid,1');
  await rig.sync.run();
  t.same(await heard(rig), ['ann "2" changed 12', 'bob null exited 12', 'cid "1" entered 12']);
});

t.test('gives the reason definition to all changes of a run with another definition', async (t) => {
  const rig = await createKnownClub(t);
  members(rig, 'bob', 'cid');
  rig.config.audiences = [audience('club', `${FILE} where true`)];
  const [report] = await rig.sync.run();
  t.same(report?.runs[0]?.reasons, { definition: 2 });
  t.same(await heard(rig), ['ann false definition 13', 'cid true definition 13']);
  members(rig, 'bob', 'cid', 'dan');
  await rig.sync.run();
  t.same(await heard(rig), ['dan true entered 13'], 'the next run has the same one');
});

t.test('takes another guard, schedule or engine name for no other definition', async (t) => {
  const rig = await createKnownClub(t);
  const { lake } = rig.config.engines;
  if (!lake) throw new Error('no engine');
  rig.config.engines = { lake, pond: lake };
  members(rig, 'ann', 'bob', 'cid');
  const changes = { engine: 'pond', schedule: '0 3 * * *', guard: { ...NO_GUARD, minMembers: 7 } };
  rig.config.audiences = [audience('club', FILE, changes)];
  await rig.sync.run();
  t.same(await heard(rig), ['cid true entered 13']);
});

t.test('takes the resync of an audience that has not begun for its first sync', async (t) => {
  const rig = await createClub(t, 'ann');
  set(rig, destination('crm'), skipping('mail'));
  const { runs } = await rig.sync.resync('club');
  t.match(runs, [{ action: 'sync', first: true, reasons: { first_sync: 1 }, skipped: ['mail'] }]);
  const told = await rig.deliver();
  t.same(said(told.get('crm')), ['ann true first_sync 12']);
  t.same(told.get('mail'), []);
  rig.config.audiences = [audience('circle', FILE)];
  t.match((await rig.sync.resync('circle')).runs, [{ state: 'held', renamedFrom: 'club' }]);
});

t.test('says resync of everybody once the snapshot or the store is lost, except of who left since', async (t) => {
  const rig = await createKnownClub(t);
  rmSync(join(rig.config.folder, 'audiences.duckdb'));
  members(rig, 'bob', 'cid');
  t.match((await rig.sync.resync('club')).runs, [{ entered: 2, reasons: { resync: 2 } }]);
  t.same(await heard(rig), ['bob true resync 13', 'cid true resync 13']);
  const fence = await rig.store.takeLease('sync:club', 1000);
  if (fence === null) return t.fail('no lease');
  await rig.store.forgetAudience('club', fence);
  await rig.store.releaseLease(fence);
  members(rig, 'cid', 'dan');
  t.match((await rig.sync.resync('club')).runs, [{ action: 'resync', first: false }]);
  t.same(await heard(rig), ['bob false exited 13', 'cid true resync 13', 'dan true entered 13']);
});

t.test('says resync only of whom nothing else has changed', async (t) => {
  const rig = await createKnownClub(t);
  members(rig, 'bob', 'cid');
  const { runs } = await rig.sync.resync('club');
  t.same(runs[0]?.reasons, { entered: 1, exited: 1, resync: 1 });
  t.same(await heard(rig), ['ann false exited 13', 'bob true resync 13', 'cid true entered 13']);
  rig.config.audiences = [audience('club', `${FILE} where true`)];
  members(rig, 'bob');
  await rig.sync.resync('club');
  t.same(await heard(rig), ['ann false resync 13', 'bob true resync 13', 'cid false definition 13']);
});

t.test('tells a destination that is back what it missed before a resync, with the reason returning', async (t) => {
  const rig = await createKnownClub(t);
  set(rig, off('crm'), destination('mail'));
  members(rig, 'bob', 'cid');
  await rig.sync.run();
  await rig.deliver();
  set(rig, destination('crm'), destination('mail'));
  rig.setTime(TWO);
  t.match((await rig.sync.resync('club')).runs, [{ action: 'backfill', destinations: ['crm'] }, { action: 'resync' }]);
  const told = await rig.deliver();
  t.same(said(told.get('crm')), ['ann false returning 13', 'bob true resync 14', 'cid true returning 13']);
  t.same(said(told.get('mail')), ['ann false resync 14', 'bob true resync 14', 'cid true resync 14']);
});

t.test('gives the reason definition to all who stay when a trait becomes an audience', async (t) => {
  const rig = await createRig(t);
  scores(rig, 'ann,1', 'bob,1');
  rig.config.traits = [trait('score', FILE)];
  await rig.sync.run();
  await rig.deliver();
  scores(rig, 'ann,1', 'cid,1');
  const sql = `select user_id, score as points from (${FILE})`;
  const club = audience('score', sql, { with: { points: {} }, sendsColumns: true });
  Object.assign(rig.config, { traits: [], audiences: [club] });
  const planned = (await rig.sync.plan())[0]?.reasons;
  const [report] = await rig.sync.run();
  t.same(report?.runs[0]?.reasons, { definition: 3 });
  t.same(planned, { definition: 3 });
  const told = await rig.deliver();
  t.same(said(told.get('crm')), ['ann true definition 12', 'bob false definition 12', 'cid true definition 12']);
  t.equal(told.get('crm')?.[0]?.context.personas['update'], undefined, 'enters');
});

t.test('skips the members of a retired trait that begins again as an audience', async (t) => {
  const rig = await createRig(t);
  scores(rig, 'ann,1');
  rig.config.traits = [trait('score', FILE)];
  await rig.sync.run();
  await rig.sync.retire('score');
  await rig.deliver();
  set(rig, skipping('crm'));
  Object.assign(rig.config, { traits: [], audiences: [audience('score', FILE)] });
  t.match((await rig.sync.run())[0]?.runs, [{ sent: 0, skipped: ['crm'] }]);
  t.same(await heard(rig), []);
});

t.test('finds changed values of a trait in a resync', async (t) => {
  const rig = await createRig(t);
  scores(rig, 'ann,1', 'bob,1');
  rig.config.traits = [trait('score', FILE)];
  await rig.sync.run();
  await rig.deliver();
  scores(rig, 'ann,2', 'bob,1');
  const { runs } = await rig.sync.resync('score');
  t.match(runs, [{ changed: 1, reasons: { changed: 1, resync: 1 } }]);
  t.same(await heard(rig), ['ann "2" changed 12', 'bob "1" resync 12']);
});

t.test('tells a backfill, a withdrawal and a retirement', async (t) => {
  const rig = await createKnownClub(t);
  set(rig, destination('crm'), destination('mail'));
  await rig.sync.run();
  t.same(await heard(rig, 'mail'), ['ann true backfill 13', 'bob true backfill 13']);
  rig.setTime(TWO);
  set(rig, destination('crm'), { ...destination('mail'), wants: { audiences: [] } });
  await rig.sync.run();
  t.same(await heard(rig, 'mail'), ['ann false withdrawn 14', 'bob false withdrawn 14']);
  await rig.sync.retire('club');
  t.same(await heard(rig), ['ann false retired 14', 'bob false retired 14']);
});

t.test('tells a rename under both names', async (t) => {
  const rig = await createKnownClub(t);
  rig.config.audiences = [audience('circle', FILE)];
  await rig.sync.run([], { renames: true });
  t.same(await heard(rig), [
    'ann false renamed 13',
    'ann true renamed 13',
    'bob false renamed 13',
    'bob true renamed 13',
  ]);
});

t.test('sends a destination that was away the difference, with the time of each change', async (t) => {
  const rig = await createKnownClub(t);
  set(rig, off('crm'));
  members(rig, 'bob', 'cid', 'dan');
  await rig.sync.run();
  rig.setTime(TWO);
  members(rig, 'bob', 'dan', 'eve');
  await rig.sync.run();
  set(rig, destination('crm'));
  rig.setTime('2026-03-01T15:00:00Z');
  const [plan] = await rig.sync.plan();
  t.match(plan?.owed, [{ destination: 'crm', reason: 'returning', messages: 3, isDifference: true }]);
  t.match((await rig.sync.run())[0]?.runs, [
    { action: 'sync', sent: 0 },
    { action: 'backfill', sent: 3, reasons: { returning: 3 } },
  ]);
  t.same(await heard(rig), ['ann false returning 13', 'dan true returning 13', 'eve true returning 14']);
});

t.test(
  'sends false only for the members that a destination knows, whose audiences changed while it was away',
  async (t) => {
    const rig = await createKnownClub(t);
    set(rig, off('crm'));
    members(rig, 'bob', 'cid');
    await rig.sync.run();
    set(rig, { ...destination('crm'), wants: { audiences: [] } });
    await rig.sync.run();
    t.same(await heard(rig), ['ann false withdrawn 13', 'bob false withdrawn 13']);
  },
);

t.test('sends everything, leavers too, once history does not reach back', async (t) => {
  const rig = await createKnownClub(t);
  Object.assign(rig.config, { recordRetention: { runs: 60_000, regulations: 60_000 } });
  set(rig, off('crm'), destination('mail'));
  members(rig, 'bob', 'cid');
  await rig.sync.run();
  rig.setTime(TWO);
  members(rig, 'bob', 'cid', 'dan');
  await rig.sync.run();
  set(rig, destination('crm'));
  const [plan] = await rig.sync.plan();
  t.match(plan?.owed, [{ reason: 'returning', messages: 4, isDifference: false }]);
  await rig.sync.run();
  const all = await heard(rig);
  t.same(
    all.map((text) => text.slice(0, -3)),
    ['ann false returning', 'bob true returning', 'cid true returning', 'dan true returning'],
  );
});

t.test('skips past members where asked, and sends later changes', async (t) => {
  const rig = await createClub(t, 'ann', 'bob');
  set(rig, skipping('crm'));
  const [plan] = await rig.sync.plan();
  t.match(plan, { skipped: ['crm'], calls: 0 });
  t.match((await rig.sync.run())[0]?.runs, [{ sent: 0, skipped: ['crm'], destinations: ['crm'] }]);
  t.same(await heard(rig), []);
  set(rig, skipping('crm'), skipping('mail'));
  members(rig, 'bob', 'cid');
  await rig.sync.run();
  const told = await rig.deliver();
  t.same(said(told.get('crm')), ['ann false exited 12', 'cid true entered 12']);
  t.same(said(told.get('mail')), ['ann false exited 12', 'cid true entered 12'], 'new, so that it has all before');
  set(rig, destination('crm'), destination('mail'));
  t.same((await rig.sync.run())[0]?.runs.length, 1);
  t.same(await heard(rig), [], 'changing it to send sends nothing');
  await rig.sync.resync('club');
  t.same(await heard(rig), ['ann false resync 12', 'bob true resync 12', 'cid true resync 12']);
});

t.test('sends a destination that skips and was away the difference, or only leavers', async (t) => {
  const rig = await createRig(t);
  members(rig, 'ann', 'bob');
  rig.config.audiences = [audience('club', FILE)];
  set(rig, skipping('crm'));
  await rig.sync.run();
  set(rig, off('crm'));
  members(rig, 'bob', 'cid');
  await rig.sync.run();
  set(rig, skipping('crm'));
  await rig.sync.run();
  t.same(await heard(rig), ['ann false returning 12', 'cid true returning 12']);
  Object.assign(rig.config, { recordRetention: { runs: 60_000, regulations: 60_000 } });
  set(rig, off('crm'));
  rig.setTime(ONE);
  members(rig, 'cid', 'dan');
  await rig.sync.run();
  rig.setTime(TWO);
  members(rig, 'cid', 'dan', 'eve');
  await rig.sync.run();
  set(rig, skipping('crm'));
  await rig.sync.run();
  t.same(
    (await heard(rig)).map((text) => text.slice(0, -3)),
    ['ann false returning', 'bob false returning'],
  );
});

t.test('leaves a destination that skips and was away with no former value', async (t) => {
  for (const [isAudience, ...keys] of [
    [false, 'score'],
    [true, 'score'],
    [true, 'first', 'second'],
  ] as const) {
    const rig = await createRig(t);
    scores(rig, 'ann,1', 'bob,1', 'cid,1');
    const values = keys.map((key) => `score as ${key}`).join(', ');
    rig.config.traits = [trait('score', `select user_id, ${values} from (${FILE})`)];
    await rig.sync.run();
    await rig.deliver();
    set(rig, off('crm'));
    rig.setTime(ONE);
    scores(rig, 'ann,2', 'bob,1');
    if (isAudience) Object.assign(rig.config, { traits: [], audiences: [audience('score', FILE)] });
    await rig.sync.run();
    Object.assign(rig.config, { recordRetention: { runs: 60_000, regulations: 60_000 } });
    rig.setTime(TWO);
    await rig.sync.run();
    set(rig, skipping('crm'));
    await rig.sync.run();
    const former = Object.fromEntries(keys.map((key) => [key, null]));
    const score = (value: string | null, isMember: boolean) => ({ ...former, score: isAudience ? isMember : value });
    t.same(
      (await rig.deliver()).get('crm')?.map(({ userId, traits }) => [userId, traits]),
      [
        ['ann', score('2', true)],
        ['bob', score('1', true)],
        ['cid', score(null, false)],
      ],
      `the trait ${keys}, then ${isAudience ? 'an audience' : 'other values'}`,
    );
  }
});

t.test('skips the true of a rename, and sends its false', async (t) => {
  const rig = await createKnownClub(t);
  set(rig, skipping('crm'));
  rig.config.audiences = [audience('circle', FILE)];
  await rig.sync.run([], { renames: true });
  t.same(await heard(rig), ['ann false renamed 13', 'bob false renamed 13']);
});

t.test('keeps the reason of an undelivered change in the same direction', async (t) => {
  const rig = await createRig(t);
  scores(rig, 'ann,1', 'bob,1');
  rig.config.traits = [trait('score', FILE)];
  await rig.sync.run();
  rig.setTime(ONE);
  scores(rig, 'ann,2');
  await rig.sync.run();
  t.same(await heard(rig), ['ann "2" first_sync 12', 'bob null exited 13'], 'with the newer value');
  scores(rig, 'ann,3', 'bob,1');
  await rig.sync.run();
  await rig.sync.resync('score');
  t.same(await heard(rig), ['ann "3" changed 13', 'bob "1" entered 13'], 'a resync over undelivered changes');
  scores(rig, 'ann,3');
  await rig.sync.run();
  rig.setTime(TWO);
  scores(rig, 'ann,3', 'bob,1');
  await rig.sync.run();
  t.same(await heard(rig), ['bob "1" entered 14'], 'a reversal takes its own');
});

t.test('keeps the reason of a change that died, offered or replayed again', async (t) => {
  const rig = await createClub(t, 'ann', 'bob');
  await rig.sync.run();
  const dead: Verdict = { kind: 'dead', reason: 'refused', status: 400, firstAt: null };
  await rig.deliver(() => dead);
  rig.setTime(ONE);
  await rig.sync.run();
  t.same(await heard(rig, 'crm', () => dead), []);
  rig.setTime(TWO);
  const letters = await rig.store.deadLetters({ limit: 10 });
  const bodies = await rig.sync.currentBodies(letters);
  await rig.store.replay(letters.map(({ id }, index) => ({ id, body: bodies[index] as string })));
  t.same(await heard(rig), ['ann true first_sync 12', 'bob true first_sync 12']);
});

t.test('keeps the reasons of a run that a person approves', async (t) => {
  const rig = await createKnownClub(t);
  const guard = { ...NO_GUARD, maxExits: { count: 0 } };
  rig.config.audiences = [audience('club', FILE, { guard })];
  members(rig, 'bob', 'cid');
  const [report] = await rig.sync.run();
  rig.setTime(TWO);
  rig.config.audiences = [audience('club', `${FILE} where true`, { guard })];
  await rig.sync.approve(report?.runs[0]?.id ?? '');
  t.same(await heard(rig), ['ann false exited 13', 'cid true entered 13']);
});

t.test('says in why what receivers are told', async (t) => {
  const rig = await createKnownClub(t);
  members(rig, 'bob');
  await rig.sync.run();
  t.match((await rig.sync.why('club', 'ann')).changes, [
    { change: 'entered', reason: 'first_sync', changedAt: Date.parse(NOON) },
    { change: 'left', reason: 'exited', changedAt: Date.parse(ONE) },
  ]);
  set(rig, destination('crm'), destination('mail'));
  await rig.sync.run();
  await rig.deliver();
  t.match((await rig.sync.why('club', 'bob')).changes, [{ change: 'entered', reason: 'first_sync' }]);
});

t.test('holds a trait whose columns changed although its definition did not', async (t) => {
  const rig = await createRig(t);
  rig.write('users', ['user_id,plan,seats', 'ann,pro,3']);
  rig.config.traits = [trait('account', FILE, { guard: NO_GUARD })];
  await rig.sync.run();
  await rig.deliver();
  rig.write('users', ['user_id,plan,seats,email', 'ann,pro,3,ann@example.com']);
  t.match(await rig.sync.plan(), [{ held: /new: email/ }]);
  const [report] = await rig.sync.run();
  t.match(report?.runs, [{ state: 'held', code: 'columns_changed', reason: /new: email/ }]);
  t.same(await heard(rig), []);
  t.match(await rig.sync.approve(report?.runs[0]?.id ?? ''), { error: null, runs: [{ state: 'done', code: null }] });
  t.match((await rig.deliver()).get('crm'), [{ traits: { plan: 'pro', seats: '3', email: 'ann@example.com' } }]);
  rig.config.traits = [trait('account', `${FILE} limit 10`)];
  rig.write('users', ['user_id,plan', 'ann,pro']);
  t.match(await rig.sync.run(), [{ error: null, runs: [{ state: 'done' }] }], 'an edited definition may change them');
});
