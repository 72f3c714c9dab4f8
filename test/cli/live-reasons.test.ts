import t from 'tap';
import { until } from '../helpers/until.ts';
import { startReceiver } from '../live/helpers/receiver.ts';
import { jsonLines, orders, rollcall, start, workspace } from './helpers.ts';

t.setTimeout(300_000);
const DAY = 86_400_000;
const LIVE = 'source: personas, live: true, guard: { allowEmpty: true }';
/** More audiences, and what they need. */
const MORE = `  - { name: Buyers, ${LIVE}, when: { performed: Order, within: 1 day } }
  - { name: Both, ${LIVE}, when: { all: [{ performed: Order }, { inAudience: big_spenders }] } }
  - { name: Scorers, ${LIVE}, when: { computed: score, gte: 100 } }
traits:
  - { name: Score, source: personas, sql: "select customer as user_id, amount as score from read_csv('orders.csv')" }
eventLog: { path: ./events }
admin: { token: the-operator-token }
`;

t.test('says why each live change is sent, by the commands alone', async (t) => {
  const receiver = await startReceiver(t);
  const { folder, config } = await workspace(t, receiver.url, MORE);
  const run = async (...args: readonly string[]) => {
    const done = await rollcall([...args, '-c', config]);
    t.equal(done.code, 0, `${args.join(' ')}\n${done.stderr}`);
    return done;
  };
  await run('sync', '--once', 'big_spenders');
  await run('sync', '--once', 'score');
  const service = start(['start', '-c', config]);
  t.teardown(() => service.stop());
  const [address] = await service.stderr.match(/http:\/\/127\.0\.0\.1:\d+/);
  const send = async (...batch: readonly object[]) => {
    const body = JSON.stringify({ batch, writeKey: 'personas-key' });
    t.equal((await fetch(`${address}/v1/batch`, { method: 'POST', body })).status, 200);
  };
  const sync = async (key: string) => {
    const headers = { authorization: 'Bearer the-operator-token' };
    const asked = await fetch(`${address}/api/v1/audiences/${key}/sync`, { method: 'POST', headers });
    t.ok(asked.ok, `${asked.status} ${await asked.text()}`);
  };
  const order = (userId: string, age = 0) => {
    const timestamp = new Date(Date.now() - age).toISOString();
    return { type: 'track', event: 'Order', userId, timestamp, messageId: `order of ${userId}` };
  };
  const merge = (previousId: string, userId: string) => {
    return { type: 'alias', previousId, userId, messageId: `${previousId} is ${userId}` };
  };
  /** `reason cause`, once it has arrived. */
  const why = async (audience: string, user: string, value: boolean) => {
    const find = () =>
      receiver.heard.findLast(({ key, userId, value: is }) => key === audience && userId === user && is === value);
    await until(async () => find() !== undefined);
    const { reason, cause } = find() ?? {};
    return `${reason} ${JSON.stringify(cause)}`;
  };
  const table: Record<string, string> = {};

  await until(async () => {
    const audiences = jsonLines<{ live: { hold: string | null; lag: number | null } | null }>(
      await rollcall(['audiences', '--json', '-c', config]),
    );
    return audiences.every(({ live }) => live === null || (live.hold === null && live.lag === 0));
  });

  await send(order('dan'));
  table['live event'] = await why('buyers', 'dan', true);

  // Whoever is not computed before time is over never enters.
  const seconds = [3, 6, 12, 24, 48];
  await send(...seconds.map((left) => order(`late-${left}`, DAY - 1_000 * left)));
  const leaver = () => receiver.heard.find(({ userId, value }) => userId.startsWith('late-') && value === false);
  await until(async () => leaver() !== undefined);
  const late = leaver()?.userId ?? '';
  t.equal(await why('buyers', late, true), `entered {"messageId":"order of ${late}"}`);
  table['time'] = (await why('buyers', late, false)).replace(/\d{4}-.*Z/, 'TIME');

  await send(order('eva'), merge('eva', 'eve'));
  table['alias, the new id'] = await why('buyers', 'eve', true);

  await orders(folder, { ada: 60, bob: 10, cyd: 70, dan: 200 });
  await sync('big_spenders');
  table['synced audience'] = await why('both', 'dan', true);
  await sync('score');
  table['computed'] = await why('scorers', 'dan', true);

  await send(order('old-zoe'), merge('old-zoe', 'zoe'));
  await why('buyers', 'zoe', true);
  await run('forget', 'old-zoe');
  table['deletion'] = await why('buyers', 'zoe', false);

  for (const [life, reason] of Object.entries(table)) t.comment(`${life.padEnd(20)} ${reason}`);
  t.same(table, {
    'live event': 'entered {"messageId":"order of dan"}',
    time: 'exited {"time":"TIME"}',
    'alias, the new id': 'entered {"messageId":"eva is eve"}',
    'synced audience': 'entered {"audience":"big_spenders"}',
    computed: 'entered {"computed":"score"}',
    deletion: 'exited {"deletion":true}',
  });
  t.same(receiver.faults, []);
});
