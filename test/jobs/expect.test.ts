import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { ExpectConfig } from '../../src/config/config.ts';
import { audience, createRig, NO_EXPECT, NO_GUARD, trait, values } from './helpers/rig.ts';

const expecting = (changes: Partial<ExpectConfig>) => ({ expect: { ...NO_EXPECT, ...changes } });
const HOUR = 3_600_000;

t.test('holds runs, also a first one, until an old source is fresh or a person approves', async (t) => {
  const rig = await createRig(t);
  const sql = "select user_id, seen from read_csv('logins.csv')";
  const freshness = { column: 'SEEN', within: 24 * HOUR };
  rig.config.audiences = [audience('a', sql, expecting({ freshness }))];
  rig.write('logins', ['user_id,seen', '1,2026-02-01 10:00:00', '2,2026-02-28 11:59:59']);
  t.match(await rig.sync.plan(), [{ held: /^The source is old: the newest SEEN is 2026-02-28T11:59:59.000Z; .* 1d/ }]);
  const [held] = await rig.sync.run();
  t.match(held?.runs, [{ state: 'held', members: 2, sent: 0, reason: /^The source is old/ }]);
  t.match(rig.notices, [{ event: 'sync_held', key: 'a', message: /^The source is old/ }]);
  t.same((await rig.deliver()).get('crm'), [], 'nothing is sent');
  await rig.sync.reject(held?.runs[0]?.id ?? '');
  rig.write('logins', ['user_id,seen', '1,2026-02-01 10:00:00', '2,2026-02-28 12:00:00']);
  t.match(await rig.sync.run(), [{ runs: [{ state: 'done', sent: 2 }] }], 'to the millisecond');
  rig.setTime('2026-03-02T12:00:01Z');
  rig.write('logins', ['user_id,seen', '2,2026-02-28 12:00:00']);
  const [again] = await rig.sync.run();
  t.match(again?.runs, [{ state: 'held' }]);
  t.match(await rig.sync.approve(again?.runs[0]?.id ?? ''), { runs: [{ state: 'done', exited: 1, sent: 1 }] });
  rig.write('logins', ['user_id,seen', '2,']);
  t.match(await rig.sync.run(), [
    {
      runs: [{ state: 'held', reason: 'The source has no value in SEEN; expect.freshness wants one of the last 1d.' }],
    },
  ]);
});

t.test('judges a source by the day that is synced as of', async (t) => {
  const rig = await createRig(t);
  const sql = "select 'u' as user_id, timestamp '1998-03-01 00:00:00' as seen";
  rig.config.audiences = [audience('a', sql, expecting({ freshness: { column: 'seen', within: HOUR } }))];
  t.match(await rig.sync.plan([], { now: Date.parse('1998-03-01T00:30:00Z') }), [{ held: null }]);
  t.match(await rig.sync.plan([], { now: Date.parse('1998-03-01T02:00:00Z') }), [{ held: /is old/ }]);
});

t.test('ignores future dates when judging the age of a source', async (t) => {
  const rig = await createRig(t);
  const judged = async (...seen: string[]) => {
    const sql = `select format('u{}', generate_subscripts(list, 1)) as user_id, unnest(list) as seen from (values ([${seen.join(', ')}])) as lists(list)`;
    rig.config.audiences = [audience('a', sql, expecting({ freshness: { column: 'seen', within: HOUR } }))];
    const [plan] = await rig.sync.plan();
    const [report] = await rig.sync.run();
    const run = report?.runs.at(-1);
    if (run?.state === 'held') await rig.sync.reject(run.id);
    t.equal(plan?.held ?? null, run?.reason ?? null);
    return run?.reason ?? null;
  };
  const never = "timestamp '9999-12-31'";
  t.match(await judged("timestamp '2020-01-01'", never), /^The source is old: the newest seen is 2020-01-01T00:00/);
  t.equal(
    await judged(never, "timestamp '9999-12-30'"),
    "The source has no value in seen up to the run's time, only later ones; expect.freshness wants one of the last 1h.",
  );
  t.equal(await judged("timestamp '2026-03-01 11:30:00'", never), null);
  t.equal(await judged("timestamp '2026-03-02 02:00:00'", never), null, 'a local time may be ahead of UTC');
  t.match(
    await judged("'2026-03-01T12:30:00+02:00'", "'9999-12-31'"),
    /the newest seen is 2026-03-01T10:30/,
    'text too',
  );
  t.equal(await judged("'2026-03-01T12:30:00+01:00'"), null);
});

t.test('leaves the freshness column out of a trait', async (t) => {
  const rig = await createRig(t);
  const sql = "select 'u' as user_id, 7 as score, date '2026-03-01' as day";
  rig.config.traits = [trait('points', sql, expecting({ freshness: { column: 'day', within: 24 * HOUR } }))];
  t.match(await rig.sync.run(), [{ error: null, runs: [{ state: 'done' }] }]);
  t.same(values((await rig.deliver()).get('crm'), 'points'), { u: 7 });
  t.match(await rig.sync.types(), [{ columns: [{ key: 'points', type: 'number' }] }]);
  rig.config.traits = [trait('points', sql, expecting({ freshness: { column: 'days', within: HOUR } }))];
  const message = /^points: expect\.freshness names the column days, but the SQL returns .*\bday\b/;
  t.match(await rig.sync.run(), [{ error: { code: 'column_missing', message } }]);
});

t.test('holds a run with too few rows, also the first one', async (t) => {
  const rig = await createRig(t);
  const list = (...users: string[]) => `select unnest([${users.map((user) => `'${user}'`)}]::varchar[]) as user_id`;
  const last = async (...users: string[]) => {
    rig.config.audiences = [audience('a', list(...users), expecting({ minRows: 3 }))];
    return (await rig.sync.run())[0]?.runs.at(-1);
  };
  const held = await last('1', '2');
  t.match(held, { state: 'held', first: true, reason: 'The SQL returned 2 rows; expect.minRows wants 3.' });
  await rig.sync.reject(held?.id ?? '');
  t.match(await last('1', '1', ''), { state: 'done', members: 1 }, 'rows are counted, not users');
});

t.test('holds a run with too many changes, counting entries, exits and values', async (t) => {
  const rig = await createRig(t);
  const rows = (list: string) => `select * from (values ${list}) as rows(user_id, value)`;
  const last = async (list: string) => {
    rig.config.traits = [trait('ltv', rows(list), expecting({ maxChange: { percent: 50 } }))];
    return (await rig.sync.run())[0]?.runs.at(-1);
  };
  t.match(await last("('a', 1), ('b', 2), ('c', 3), ('d', 4)"), { state: 'done', first: true }, 'never a first one');
  t.match(await last("('a', 1), ('b', 2), ('c', 4), ('e', 4)"), {
    state: 'held',
    reason: '3 of 4 users would change, more than expect.maxChange (50%) allows.',
  });
});

t.test('fails a run that reads a half-written file, sends nothing, and recovers in the next run', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', "select user_id from read_json('users.json')")];
  const file = join(rig.config.folder, 'users.json');
  const whole = Array.from({ length: 100 }, (_, user) => JSON.stringify({ user_id: `u${user}` })).join('\n');
  writeFileSync(file, whole);
  await rig.sync.run();
  writeFileSync(file, whole.slice(0, whole.length / 2 - 1));
  t.match(await rig.sync.run(), [{ error: { code: 'source_incomplete', message: /^a: .*unexpected end of data/ } }]);
  t.match(await rig.store.runs({ key: 'a', limit: 1 }), [{ state: 'failed', code: 'source_incomplete' }]);
  t.match(rig.notices, [{ event: 'sync_failed', code: 'source_incomplete' }]);
  writeFileSync(file, whole);
  t.match(await rig.sync.run(), [{ runs: [{ state: 'done', entered: 0, exited: 0 }] }]);
});

t.test('fails a run over a CSV with only a header, and holds it as empty if its types are named', async (t) => {
  const rig = await createRig(t);
  const spenders = (file: string) => `select user_id from ${file} group by 1 having sum(amount) > 50`;
  const header = ['user_id,amount'];
  rig.config.audiences = [audience('a', spenders("read_csv('sums.csv')"))];
  rig.write('sums', [...header, 'ada,60']);
  t.match(await rig.sync.run(), [{ runs: [{ state: 'done', members: 1 }] }]);
  rig.write('sums', header);
  const why = {
    code: 'source_incomplete',
    message: /^a: 'sums.csv' has no rows.*types = .*Binder Error.*sum\(VARCHAR\)/,
  };
  t.match(await rig.sync.run(), [{ error: why }]);
  await t.rejects(rig.sync.plan(['a']), why, 'a plan says so, too');
  rig.config.audiences = [audience('a', spenders("'sums.csv'"))];
  t.match(await rig.sync.run(), [{ error: why }]);
  const typed = spenders("read_csv('sums.csv', types = {'amount': 'DOUBLE'})");
  rig.config.audiences = [audience('a', typed, { guard: { ...NO_GUARD, allowEmpty: false } })];
  t.match(await rig.sync.run(), [{ runs: [{ state: 'held', reason: 'The result is empty; 1 user would leave.' }] }]);
  rig.config.audiences = [
    audience('b', "select user_id, none from read_csv('sums.csv') group by user_id, sum(user_id)"),
  ];
  rig.write('sums', [...header, 'ada,60']);
  t.match(await rig.sync.run(['b']), [{ error: { code: 'sql_failed' } }], 'a mistake beside rows is one of the SQL');
});

t.test('holds a run that gets too few rows from a CSV cut off within a quote', async (t) => {
  const rig = await createRig(t);
  const sql = "select user_id from read_csv('notes.csv') where note not like '\"%'";
  rig.config.audiences = [audience('a', sql, expecting({ minRows: 90 }))];
  const rows = Array.from({ length: 100 }, (_, user) => `u${user},"note ${user}"`);
  rig.write('notes', ['user_id,note', ...rows]);
  t.match(await rig.sync.run(), [{ runs: [{ state: 'done', members: 100 }] }]);
  writeFileSync(join(rig.config.folder, 'notes.csv'), ['user_id,note', ...rows].join('\n').slice(0, -4));
  const [report] = await rig.sync.run();
  t.match(report?.runs, [{ state: 'held', reason: /The SQL returned \d+ rows; expect.minRows wants 90/ }]);
});
