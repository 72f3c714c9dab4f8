import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { App } from '../../src/app.ts';
import { type LoggingService, loggingService, send } from '../events/helpers/logging-app.ts';
import { startReceiver } from './helpers/receiver.ts';
import { caughtUp, delivered } from './helpers/service.ts';

t.setTimeout(590_000);
/** More than are taken over in one step. */
const MANY = 2_500;

t.test('refers to the members of an SQL audience as of its last sync', async (t) => {
  const service = loggingService(t);
  const receiver = await startReceiver(t);
  const list = (users: readonly string[]) =>
    writeFileSync(join(service.folder, 'list.csv'), `id\n${users.join('\n')}\n`);
  const sync = async () => {
    const [report] = await app.sync.run(['list']);
    if (report?.error) throw report.error;
    await caughtUp(app);
    await delivered(app);
  };
  list(['ann', 'bob', 'old']);
  let app = await opened(service, receiver.url);
  await app.start({ collect: true, schedules: true });
  await send(app, [did('Order', 'ann'), did('Order', 'cleo')]);
  await caughtUp(app);
  t.same(receiver.state('loyal'), {}, 'before its first sync it has no members');
  await sync();
  t.same(receiver.state('loyal'), { ann: true });

  await t.test('changes at once with a sync, which `why` names as the cause', async (t) => {
    list(['bob', 'cleo', 'old']);
    await sync();
    t.same(receiver.state('loyal'), { cleo: true });
    const left = await app.sync.why('loyal', 'ann');
    t.match(left.changes.at(-1), { change: 'left', cause: { event: null, audience: 'list' } });
    await send(app, [did('Order', 'bob')]);
    await caughtUp(app);
    await delivered(app);
    t.same(receiver.state('loyal'), { bob: true, cleo: true });
    t.match((await app.sync.why('loyal', 'bob')).changes, [{ cause: { event: { event: 'Order' }, audience: null } }]);
  });

  await t.test('counts a member with a former id as its current user', async (t) => {
    await send(app, [{ type: 'alias', previousId: 'old', userId: 'new', messageId: 'alias-1' }, did('Order', 'new')]);
    await caughtUp(app);
    await delivered(app);
    t.same(receiver.state('loyal'), { bob: true, cleo: true, new: true });
  });

  await t.test('catches up in many steps on syncs that ran while nothing live ran', async (t) => {
    await app.close();
    const others = await opened(service, receiver.url);
    const many = Array.from({ length: MANY }, (_, n) => `many-${n}`);
    for (const users of [['ann'], ['ann', 'new', ...many]]) {
      list(users);
      const [report] = await others.sync.run(['list']);
      if (report?.error) throw report.error;
    }
    await others.close();
    app = await opened(service, receiver.url);
    await app.start({ collect: true, schedules: true });
    await caughtUp(app);
    await delivered(app);
    t.same(receiver.state('loyal'), { ann: true, new: true });
    t.equal(Object.keys(receiver.state('others')).length, 2, 'bob and cleo are in the log, and not in the list');
  });

  await t.test('removes a deleted user from both audiences', async (t) => {
    const id = await app.regulations.file({ type: 'DELETE_ONLY', sources: null, userIds: ['ann'] });
    while ((await app.regulations.find(id))?.status !== 'FINISHED') await new Promise((done) => setTimeout(done, 30));
    await caughtUp(app);
    await delivered(app);
    t.same(receiver.state('loyal'), { new: true });
    const states = await app.store.live.allStates();
    for (const { state } of states) t.same(await app.store.live.rowsOfIds(state, ['u:ann']), []);
  });

  await t.test('treats a retired audience as empty', async (t) => {
    t.equal((await app.sync.retire('list')).error, null);
    await caughtUp(app);
    await delivered(app);
    t.same(receiver.state('loyal'), {});
  });
  t.same(receiver.faults, []);
});

t.test('refers to computed values as of the last sync, and to a live trait as it is', async (t) => {
  const service = loggingService(t);
  const receiver = await startReceiver(t);
  const scores = (rows: readonly string[]) =>
    writeFileSync(join(service.folder, 'scores.csv'), `id,score,tier\n${rows.join('\n')}\n`);
  const common = { source: 'personas', guard: { allowEmpty: true } };
  const live = { ...common, live: true };
  const good = { computed: 'score', column: 'score', gte: 10 };
  const config = {
    network: { allow: ['127.0.0.0/8'] },
    destinations: [{ name: 'crm', sources: ['personas'], webhookUrl: receiver.url }],
    engines: { lake: { type: 'duckdb', path: './audiences.duckdb' } },
    audiences: [
      { name: 'Good', ...live, when: good },
      { name: 'Good By SQL', ...common, when: good },
      { name: 'Plain', ...live, when: { computed: 'score', column: 'tier', isNot: 'gold' } },
      { name: 'Busy', ...live, when: { computed: 'orders', gt: 1 } },
      { name: 'Busy By SQL', ...common, when: { computed: 'orders', gt: 1 } },
    ],
    traits: [
      { name: 'Orders', ...live, value: { count: 'Order' } },
      { name: 'Score', ...common, sql: "SELECT id AS user_id, score, tier FROM read_csv('scores.csv', header = true)" },
    ],
  };
  const app = await service.open([], config);
  await app.start({ collect: true, schedules: true });
  const sync = async (...keys: string[]) => {
    for (const { error } of await app.sync.run(keys)) if (error) throw error;
    await caughtUp(app);
    await delivered(app);
  };
  await send(app, [did('Order', 'ann'), did('Order', 'bob'), did('Order', 'bob')]);
  await sync('good_by_sql', 'busy_by_sql');
  t.same(receiver.state('good'), {}, 'nobody has a value before the first sync');
  t.same(receiver.state('good_by_sql'), {});
  t.same(receiver.state('plain'), { ann: true, bob: true });
  t.same(receiver.state('busy'), { bob: true });
  t.same(receiver.state('busy_by_sql'), { bob: true });

  scores(['ann,12,gold', 'far,30,silver', 'bob,3,']);
  await sync('score');
  await sync('good_by_sql');
  for (const key of ['good', 'good_by_sql']) t.same(receiver.state(key), { ann: true, far: true }, key);
  t.same(receiver.state('plain'), { bob: true, far: true }, 'who has a value counts as a person');
  t.match(receiver.heard.find(({ key }) => key === 'good')?.cause, { computed: 'score' });
  t.match((await app.sync.why('good', 'ann')).changes, [{ change: 'entered', cause: { computed: 'score' } }]);

  scores(['ann,9,gold', 'far,30,silver', 'bob,10,gold']);
  await sync('score');
  await sync('good_by_sql');
  for (const key of ['good', 'good_by_sql']) t.same(receiver.state(key), { bob: true, far: true }, key);
  t.same(receiver.state('plain'), { far: true });

  await send(app, [{ type: 'alias', previousId: 'far', userId: 'near', messageId: 'alias-far' }]);
  await sync('good_by_sql');
  for (const key of ['good', 'good_by_sql']) t.same(receiver.state(key), { bob: true, near: true }, key);

  t.equal((await app.sync.retire('score')).error, null);
  await sync('good_by_sql');
  for (const key of ['good', 'good_by_sql']) t.same(receiver.state(key), {}, key);
  t.same(receiver.faults, []);
});

let sent = 0;
function did(event: string, userId: string): object {
  sent += 1;
  return { type: 'track', event, userId, messageId: `did-${sent}` };
}

function opened(service: LoggingService, webhookUrl: string): Promise<App> {
  const common = { source: 'personas', guard: { allowEmpty: true } };
  const live = { ...common, live: true };
  return service.open([], {
    network: { allow: ['127.0.0.0/8'] },
    destinations: [{ name: 'crm', sources: ['personas'], webhookUrl }],
    engines: { lake: { type: 'duckdb', path: './audiences.duckdb' } },
    audiences: [
      { name: 'List', ...common, sql: "SELECT id AS user_id FROM read_csv('list.csv', header = true)" },
      { name: 'Loyal', ...live, when: { all: [{ performed: 'Order' }, { inAudience: 'list' }] } },
      { name: 'Others', ...live, when: { not: { inAudience: 'list' } } },
    ],
  });
}
