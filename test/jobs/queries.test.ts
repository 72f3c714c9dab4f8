import t from 'tap';
import { openEngine } from '../../jobs/engines/open.ts';
import type { ChangePage, ChangePlace, RunChange } from '../../jobs/index.ts';
import type { Run } from '../../src/store/port.ts';
import { audience, createRig, destination, NO_GUARD, type Rig, trait } from './helpers/rig.ts';

const list = (...users: string[]) => `select unnest([${users.map((user) => `'${user}'`)}]::varchar[]) as user_id`;

/** `user: change` of a run. */
async function changes({ sync }: Rig, run: string | undefined): Promise<Record<string, string>> {
  const found: RunChange[] = [];
  await sync.changes(run ?? '', async (batch) => void found.push(...batch));
  return Object.fromEntries(found.map(({ userId, change }) => [userId, change]));
}

async function syncTo(rig: Rig, ...users: string[]) {
  rig.config.audiences = [audience('a', list(...users), { guard: { ...NO_GUARD, maxExits: { count: 1 } } })];
  const [report] = await rig.sync.run();
  return report?.runs[0];
}

t.test('lists who entered and left by each run, or would by a held one, even after retirement', async (t) => {
  const rig = await createRig(t);
  const first = await syncTo(rig, '1', '2', '3');
  const second = await syncTo(rig, '2', '3', '4');
  const held = await syncTo(rig, '4', '5');
  t.same(await changes(rig, first?.id), { 1: 'entered', 2: 'entered', 3: 'entered' });
  t.same(await changes(rig, second?.id), { 1: 'exited', 4: 'entered' });
  t.same(await changes(rig, held?.id), { 2: 'exited', 3: 'exited', 5: 'entered' });
  await rig.sync.reject(held?.id ?? '');
  t.same(await changes(rig, held?.id), {}, 'nobody by one that was rejected');
  const retired = (await rig.sync.retire('a')).runs[0];
  t.same(await changes(rig, retired?.id), { 2: 'exited', 3: 'exited', 4: 'exited' });
  t.same(await changes(rig, first?.id), { 1: 'entered', 2: 'entered', 3: 'entered' });
  const anew = await syncTo(rig, '4');
  t.same(await changes(rig, anew?.id), { 4: 'entered' }, 'a new life has versions of its own');
  t.same(await changes(rig, first?.id), { 1: 'entered', 2: 'entered', 3: 'entered' });
  await t.rejects(
    rig.sync.changes('nope', async () => {}),
    { code: 'unknown_run' },
  );
});

t.test('joins orders that wait for their turn, and shows them', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', list('1'))];
  await rig.sync.run();
  const fence = await rig.store.takeLease('sync:a', 60_000);
  if (!fence) throw new Error('the lease is taken');
  const orders = Array.from({ length: 6 }, () => rig.sync.run(['a']));
  while ((await rig.sync.audiences())[0]?.ordered === null) await new Promise(setImmediate);
  t.match((await rig.sync.audiences())[0], { ordered: { action: 'sync', at: Number } });
  await rig.store.releaseLease(fence);
  const reports = (await Promise.all(orders)).flat();
  t.equal(new Set(reports.flatMap(({ runs }) => runs.map(({ id }) => id))).size, 1, 'one run for six');
  t.equal((await rig.store.runs({ key: 'a', limit: 10 })).length, 2);
  t.match((await rig.sync.audiences())[0], { ordered: null });
});

t.test('says what each destination knows of each audience', async (t) => {
  const rig = await createRig(t);
  const [first] = rig.config.destinations;
  const name = first?.name ?? '';
  rig.config.audiences = [audience('a', list('1', '2'))];
  const states = async () =>
    Object.fromEntries(
      (await rig.sync.standings()).map(({ key, destination, state }) => [`${key} ${destination}`, state]),
    );
  t.same(await states(), { [`a ${name}`]: 'new' });
  await rig.sync.run();
  const skipping = { ...destination('late'), backfill: 'skip' } as const;
  rig.config.destinations = [...rig.config.destinations, skipping, destination('mail')];
  t.same(await states(), { [`a ${name}`]: 'current', 'a late': 'later', 'a mail': 'to_come' });
  await rig.sync.run();
  t.equal((await states())['a mail'], 'current');
  rig.config.destinations = rig.config.destinations.map((each) =>
    each.name === 'mail' ? { ...each, wants: { audiences: [] } } : each,
  );
  t.equal((await states())['a mail'], 'to_end');
  rig.config.destinations = rig.config.destinations.filter((each) => each.name !== 'mail');
  rig.config.audiences = [audience('a', list('1'))];
  await rig.sync.run();
  rig.config.destinations = [...rig.config.destinations, destination('mail')];
  t.match(
    (await rig.sync.standings()).find((each) => each.destination === 'mail'),
    { state: 'lapsed', since: Number },
  );
});

t.test("keeps a run's changes as long as runs, except those of deleted users", async (t) => {
  const rig = await createRig(t);
  Object.assign(rig.config, { recordRetention: { runs: 30 * 86_400_000, regulations: 0, audit: 0 } });
  await syncTo(rig, '1', '2');
  const second = await syncTo(rig, '2');
  rig.setTime('2026-03-20T12:00:00Z');
  await syncTo(rig, '2', '3');
  t.same(await changes(rig, second?.id), { 1: 'exited' });
  await rig.sync.forget({ users: ['1'], anonymous: [] }, null, async () => false);
  t.same(await changes(rig, second?.id), {});
  const third = await syncTo(rig, '3');
  rig.setTime('2026-04-30T12:00:00Z');
  t.same(await changes(rig, third?.id), { 2: 'exited' });
  await syncTo(rig, '3');
  t.same(await changes(rig, third?.id), {}, 'forgotten by the next run');
});

t.test('explains each change with its run, definition and attempt per destination', async (t) => {
  const rig = await createRig(t);
  rig.config.destinations = [destination('crm'), destination('mail')];
  const first = await syncTo(rig, '1', '2');
  await rig.deliver();
  rig.setTime('2026-03-02T12:00:00Z');
  const second = await syncTo(rig, '2');
  await rig.deliver(({ destination: name }) =>
    name === 'mail' ? { kind: 'dead', reason: 'refused', status: 400, firstAt: rig.time() } : { kind: 'delivered' },
  );
  rig.setTime('2026-03-03T12:00:00Z');
  const story = await rig.sync.why('a', '1');
  t.match(story, { member: false, since: { id: second?.id }, asOf: null });
  t.match(story.changes, [
    { change: 'entered', run: { id: first?.id, definitionHash: first?.definitionHash, first: true } },
    { change: 'left', run: { id: second?.id, definitionHash: second?.definitionHash } },
  ]);
  t.not(first?.definitionHash, second?.definitionHash);
  t.match(story.changes[1]?.told, [
    { destination: 'crm', deadLetter: null },
    { destination: 'mail', deadLetter: { reason: 'refused' } },
  ]);
  t.match(await rig.sync.why('a', '1', { at: Date.parse('2026-03-01T18:00:00Z') }), {
    member: true,
    since: { id: first?.id },
    changes: [{ change: 'entered' }],
    deadLetters: [],
  });
  t.match(await rig.sync.why('a', '1', { at: Date.parse('2026-02-01T00:00:00Z') }), { member: false, changes: [] });
});

t.test('explains values, also in a retired audience, configured or not', async (t) => {
  const rig = await createRig(t);
  const value = (number: number) => trait('ltv', `select 'u' as user_id, ${number} as value`);
  rig.config.traits = [value(1)];
  await rig.sync.run();
  rig.setTime('2026-03-02T12:00:00Z');
  rig.config.traits = [value(2)];
  await rig.sync.run();
  const told = async () =>
    (await rig.sync.why('ltv', 'u')).changes.map(({ change, value: to }) => [change, to && JSON.parse(to)]);
  t.same(await told(), [
    ['entered', { ltv: 1 }],
    ['changed', { ltv: 2 }],
  ]);
  await rig.deliver();
  rig.setTime('2026-03-03T12:00:00Z');
  await rig.sync.retire('ltv');
  await rig.deliver();
  const whole = [
    ['entered', { ltv: 1 }],
    ['changed', { ltv: 2 }],
    ['left', null],
  ];
  t.same(await told(), whole);
  rig.config.traits = [];
  await rig.sync.run();
  t.same(await told(), whole, 'nor does it matter that nobody configures it any more');
  t.match(await rig.sync.why('ltv', 'u'), { member: false, value: null });
  t.match(await rig.sync.why('ltv', 'u', { at: Date.parse('2026-03-02T13:00:00Z') }), {
    member: true,
    value: '{"ltv":2}',
  });
  await t.rejects(rig.sync.why('never', 'u'), { code: 'unknown_audience' });
});

/** All pages of a run's changes, as `user: change`. */
async function paged({ sync }: Rig, run: string | undefined, limit: number, after = ''): Promise<readonly string[]> {
  const found: string[] = [];
  for (let place: ChangePlace | null = { position: 0, user: after }; place; ) {
    const page: ChangePage = await sync.changePage(run ?? '', place, limit);
    found.push(...page.changes.map(({ userId, change }) => `${userId} ${change}`));
    place = page.next;
  }
  return found;
}

t.test('pages through members and through changes of a done, held or orphaned run', async (t) => {
  const rig = await createRig(t);
  const first = await syncTo(rig, '1', '2', '3');
  const second = await syncTo(rig, '2', '3', '4');
  const held = await syncTo(rig, '4', '5');
  t.same((await rig.sync.memberPage('a', '2', 1)).userIds, ['3']);
  t.same(await paged(rig, first?.id, 2), ['1 entered', '2 entered', '3 entered']);
  t.same(await paged(rig, second?.id, 1), ['1 exited', '4 entered']);
  for (const limit of [1, 2, 9]) t.same(await paged(rig, held?.id, limit), ['2 exited', '3 exited', '5 entered']);
  t.same(await paged(rig, held?.id, 1, '2'), ['3 exited', '5 entered']);
  const begun = await rig.sync.changePage(held?.id ?? '', { position: 0, user: '' }, 1);
  await rig.sync.approve(held?.id ?? '');
  t.match(await rig.sync.changePage(held?.id ?? '', begun.next ?? { position: 0, user: '' }, 9), {
    changes: [{ userId: '3' }, { userId: '5' }],
    next: null,
  });
  rig.config.audiences = [];
  await rig.sync.retire('a');
  t.same(await paged(rig, second?.id, 1), ['1 exited', '4 entered']);
  await t.rejects(rig.sync.changePage('nobody', { position: 0, user: '' }, 1), { code: 'unknown_run' });
  await t.rejects(rig.sync.memberPage('nobody', '', 1), { code: 'unknown_audience' });
});

t.test('lists the status of each audience, however many runs others had since', async (t) => {
  const rig = await createRig(t);
  const busy = (...users: string[]) => audience('busy', list(...users), { schedule: '0 4 * * *' });
  const strict = { guard: { ...NO_GUARD, allowEmpty: false } };
  rig.config.audiences = [
    busy('1'),
    audience('held', list('1'), strict),
    audience('broken', list('1')),
    audience('paused', list('1'), { paused: true, schedule: '* * * * *' }),
    audience('gone', list('1')),
  ];
  await rig.sync.run();
  rig.config.audiences = [
    busy('1', '2'),
    audience('held', list(), strict),
    audience('broken', 'select nonsense'),
    audience('paused', list('1'), { paused: true, schedule: '* * * * *' }),
    audience('new', list('1')),
  ];
  await rig.sync.run(['busy', 'held', 'broken']);
  for (const size of [3, 4, 5, 6, 7, 8, 9, 10, 11, 12]) {
    rig.config.audiences[0] = busy(...Array.from({ length: size }, (_, user) => String(user + 1)));
    await rig.sync.run(['busy']);
  }
  const statuses = await rig.sync.audiences();
  t.match(statuses, [
    { key: 'busy', state: 'ok', members: 12, trend: [3, 4, 5, 6, 7, 8, 9, 10, 11, 12], nextRunAt: Number, todo: null },
    { key: 'held', state: 'held', members: 1, todo: { do: 'decide', run: /./, reason: /empty/ } },
    { key: 'broken', state: 'failed', members: 1, todo: { do: 'repair', code: 'sql_failed', reason: /nonsense/ } },
    { key: 'paused', state: 'paused', members: null, nextRunAt: null, todo: null },
    { key: 'new', state: 'new', members: null, trend: [], lastRun: null, nextRunAt: null },
    { key: 'gone', state: 'orphaned', members: 1, todo: { do: 'retire' } },
  ]);
});

t.test('reports failures since the first in a row, until a run is done', async (t) => {
  const rig = await createRig(t);
  const setTo = (sql: string) => {
    rig.config.audiences = [audience('a', sql)];
  };
  const syncAt = async (time: string) => {
    rig.setTime(time);
    await rig.sync.run();
    const [status] = await rig.sync.audiences();
    return status?.todo?.do === 'repair' ? new Date(status.todo.since).toISOString() : null;
  };
  setTo('select nonsense');
  t.equal(await syncAt('2026-03-01T12:00:00.000Z'), '2026-03-01T12:00:00.000Z');
  t.equal(await syncAt('2026-03-01T13:00:00.000Z'), '2026-03-01T12:00:00.000Z');
  setTo('selec worse');
  t.equal(await syncAt('2026-03-01T14:00:00.000Z'), '2026-03-01T12:00:00.000Z');
  const [last] = await rig.store.runs({ key: 'a', limit: 1 });
  if (!last) throw new Error('it never ran');
  const computing: Run = { ...last, id: 'computing', state: 'staged', code: null, reason: null };
  const fence = await rig.store.takeLease('sync:a', 60_000);
  if (!fence) throw new Error('another run has the lease');
  await rig.store.saveRun(computing, fence);
  const [meanwhile] = await rig.sync.audiences();
  t.match(
    meanwhile,
    { state: 'unfinished', todo: { do: 'repair', run: last.id, since: Number } },
    'while it is tried again',
  );
  await rig.store.releaseLease(fence);
  setTo(list('1'));
  t.equal(await syncAt('2026-03-01T15:00:00.000Z'), null);
  setTo('select nonsense');
  t.equal(await syncAt('2026-03-01T16:00:00.000Z'), '2026-03-01T16:00:00.000Z', 'another row of failures');
});

t.test('streams members in batches', async (t) => {
  const rig = await createRig(t);
  rig.config.destinations = [];
  rig.config.audiences = [audience('a', 'select range as user_id from range(1, 20001)')];
  await rig.sync.run();
  const sizes: number[] = [];
  await rig.sync.members('a', async ({ userIds }) => void sizes.push(userIds.length));
  t.equal(
    sizes.reduce((sum, size) => sum + size, 0),
    20_000,
  );
  t.ok(Math.max(...sizes) < 20_000);
  await t.rejects(
    rig.sync.members('nobody', async () => {}),
    { code: 'unknown_audience', message: /There is: a\.$/ },
  );
});

t.test('hides values of variables in SQL errors', async (t) => {
  const rig = await createRig(t);
  rig.config.hiddenValues = new Map([
    ['hunter2', 'PASSWORD'],
    ['unused', 'OTHER'],
  ]);
  rig.config.audiences = [
    audience('file', "select * from read_csv('hunter2.csv')"),
    audience('wrong', "select 'hunter2' as user_id, nothing as password"),
    audience('other', 'select nonsense'),
  ];
  const reports = await rig.sync.run();
  const runs = await rig.store.runs({ limit: 10 });
  const told = JSON.stringify([reports, runs, await rig.sync.audiences()]);
  t.notMatch(told, 'hunter2');
  t.match(told, /\$\{PASSWORD\}\.csv/);
  t.match(runs.find(({ key }) => key === 'other')?.reason, /nonsense.*LINE \d/s, 'others are shown whole');
  t.notMatch(reports.map(({ error }) => String((error?.cause as Error | undefined)?.message)).join(), 'hunter2');
  await t.rejects(rig.sync.plan(['file']), { code: 'sql_failed', message: /\$\{PASSWORD\}\.csv/ });
});

t.test('reports any failure of an examination as one of the engine', async (t) => {
  const rig = await createRig(t);
  const [known] = Object.keys(rig.config.engines);
  const sync = rig.another({
    openEngine: async (config, options) => ({
      ...(await openEngine(config, options)),
      examine: () => Promise.reject(new Error('unknown setting')),
    }),
  });
  await t.rejects(sync.examine(known ?? ''), { code: 'engine_failed', message: 'unknown setting' });
  t.match(await rig.sync.examine(known ?? ''), [{ state: 'ok', message: /^DuckDB v/ }]);
});
