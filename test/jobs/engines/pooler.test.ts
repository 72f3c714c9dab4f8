import pg from 'pg';
import t, { type Test } from 'tap';
import { openPostgres } from '../../../jobs/engines/postgres/postgres.ts';
import { type EngineFixture, engineContract, request, settle, usersSql } from '../../contract/engine.ts';
import { noPgbouncer, type Pooler, startPgbouncer } from '../../helpers/pgbouncer.ts';
import { startFastPostgres } from '../../helpers/postgres.ts';

/** `npm run test:poolers` tests all cases. */
const EVERY = process.env['POOLERS'] === 'all' ? 1 : 4;

if (noPgbouncer) {
  await t.test('the Postgres engine behind PgBouncer', { skip: noPgbouncer }, async () => undefined);
} else await behindPgbouncer();

async function behindPgbouncer(): Promise<void> {
  const server = await startFastPostgres();
  const poolers = {
    transaction: await startPgbouncer(server.port, 'transaction', 2),
    session: await startPgbouncer(server.port, 'session', 10),
  };

  const fixture = (pooler: Pooler) => async (t: Test) => {
    const url = pooler.through(await server.database());
    const reopen = async (options: { readOnly?: boolean } = {}) => {
      const engine = await openPostgres({ type: 'postgres', url }, options);
      t.teardown(() => engine.close().catch(() => {}));
      return engine;
    };
    return { engine: await reopen(), reopen, url } satisfies EngineFixture & { url: string };
  };

  for (const mode of ['transaction', 'session'] as const) {
    await t.test(`behind PgBouncer in ${mode} mode`, async (t) => {
      engineContract(t, fixture(poolers[mode]), EVERY);
      const { engine } = await fixture(poolers[mode])(t);
      t.match(await engine.examine?.(1_000), [{ state: 'ok', message: /, behind a pooler$/ }]);
    });
  }

  await t.test('cancels SQL through the pooler without touching that of others', async (t) => {
    const pooler = await startPgbouncer(server.port, 'transaction', 2);
    t.teardown(() => pooler.stop());
    const { engine, url } = await fixture(pooler)(t);
    await settle(engine, { sql: usersSql('a') });
    const guest = new pg.Client(url);
    await guest.connect();
    t.teardown(() => guest.end());
    const stop = new AbortController();
    const sql = `select 'u' as user_id from (select pg_sleep(600)) as slept`;
    const staging = engine.stage(request({ toVersion: 2, sql, signal: stop.signal }));
    for (let sleeps = 0; sleeps === 0; ) {
      const { rowCount } = await guest.query(`SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'`);
      sleeps = rowCount ?? 0;
    }
    const theirs = guest.query('SELECT count(*) AS n FROM generate_series(1, 3000000)');
    stop.abort(new Error('enough'));
    await t.rejects(staging, { message: 'enough' });
    t.same((await theirs).rows, [{ n: '3000000' }]);
    t.match(await engine.stage(request({ toVersion: 2, sql: usersSql('a', 'b') })), { entered: 1 });
    const left = await guest.query(
      `SELECT name FROM pg_settings WHERE source = 'session' AND name ~ 'TimeZone|float|statement'`,
    );
    t.same(left.rows, [], 'and no setting stays in the session');
  });

  await t.test('shows definitions the event log and UTC in any session', async (t) => {
    const pooler = await startPgbouncer(server.port, 'transaction', 1);
    t.teardown(() => pooler.stop());
    const url = pooler.through(await server.database());
    const admin = new pg.Client(url);
    await admin.connect();
    await admin.query(`CREATE SCHEMA rollcall_events; CREATE VIEW rollcall_events.users AS SELECT 'seen'::text AS user_id;
      ALTER DATABASE ${new URL(url).pathname.slice(1)} SET TimeZone = 'Asia/Tokyo'`);
    await admin.end();
    const engine = await openPostgres({ type: 'postgres', url }, { seesEvents: true, timeout: 60_000 });
    t.teardown(() => engine.close());
    const zone = `select user_id || current_setting('TimeZone') || current_setting('statement_timeout') as user_id from users`;
    const { plan } = await engine.stage(request({ sql: zone }));
    t.same((await engine.changes(plan, 0, 1)).userIds, ['seenUTC90s']);
    await engine.scrub('all');
  });

  await Promise.all([poolers.transaction.stop(), poolers.session.stop()]);
  await server.stop();
}
