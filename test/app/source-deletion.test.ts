import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type Inbox, startApp, startInbox, type Webhook } from '../collect/running.ts';
import { ADMIN, AS_ADMIN } from '../helpers/admin.ts';
import { storeUrl } from '../helpers/store.ts';
import { until } from '../helpers/until.ts';

/** Two audiences of the same people: `club` speaks as `personas`, `loyal` as `loyalty`. */
function writeConfig(t: Test, folder: string, inbox: Inbox): string {
  const sql = "select user_id from read_csv('members.csv', header = true, all_varchar = true)";
  const audience = (name: string, source: string) => ({ name, source, sql, guard: { allowEmpty: true } });
  const config = {
    store: storeUrl(t),
    listen: { host: '127.0.0.1', port: 0 },
    network: { allow: ['127.0.0.0/8'] },
    admin: ADMIN,
    sources: ['personas', 'loyalty', 'shop'].map((id) => ({ id, writeKey: `WK_${id}` })),
    destinations: [
      {
        name: 'app',
        sources: ['personas', 'loyalty', 'shop'],
        sharedSecret: 'a secret of the test',
        webhooks: [{ url: inbox.url }],
      },
    ],
    engines: { lake: { type: 'duckdb', path: join(folder, 'audiences.duckdb') } },
    audiences: [audience('club', 'personas'), audience('loyal', 'loyalty')],
  };
  const file = join(folder, 'rollcall.yaml');
  writeFileSync(file, JSON.stringify(config));
  return file;
}

const told = ({ type, userId, traits }: Webhook) => `${type} ${userId} ${JSON.stringify(traits ?? {})}`;

t.test('removes a user from the audiences of one source only when the deletion names that source', async (t) => {
  const folder = t.testdir({ 'members.csv': 'user_id\nu1\nu2\n' });
  const inbox = await startInbox(t);
  const app = await startApp(t, writeConfig(t, folder, inbox));
  inbox.status = 503;
  await app.sync.run();

  const filed = await fetch(`${app.address}/regulations/sources/personas`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...AS_ADMIN },
    body: JSON.stringify({
      regulationType: 'SUPPRESS_WITH_DELETE',
      subjectType: 'USER_ID',
      subjectIds: ['u1'],
    }),
  });
  t.equal(filed.status, 200);
  const { data } = (await filed.json()) as { data: { regulateId: string } };
  await until(async () => (await app.regulations.find(data.regulateId))?.status === 'FINISHED');
  t.match(await app.sync.why('club', 'u1'), { member: false, since: null, attempts: [] });
  t.match(await app.sync.why('loyal', 'u1'), { member: true });

  inbox.status = 200;
  await inbox.arrived(4);
  t.same(
    inbox.webhooks.map(told).toSorted(),
    ['delete u1 {}', 'identify u1 {"loyal":true}', 'identify u2 {"club":true}', 'identify u2 {"loyal":true}'],
    'what waited for the user was taken back, one notice is sent for that source',
  );

  await app.sync.run();
  writeFileSync(join(folder, 'members.csv'), 'user_id\nu2\nu3\n');
  const reports = await app.sync.run();
  await app.delivered(reports.flatMap(({ runs }) => runs.map(({ id }) => id)));
  t.same(
    inbox.webhooks.slice(4).map(told).toSorted(),
    ['identify u1 {"loyal":false}', 'identify u3 {"club":true}', 'identify u3 {"loyal":true}'],
    'the suppressed user is kept out of that source only',
  );
});
