import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { App } from '../../src/app.ts';
import { type LoggingService, loggingService, send } from '../events/helpers/logging-app.ts';
import { startReceiver } from './helpers/receiver.ts';
import { caughtUp, computed, delivered } from './helpers/service.ts';

t.setTimeout(590_000);
const HOUR = 3_600_000;
type Receiver = Awaited<ReturnType<typeof startReceiver>>;

let sent = 0;
function order(userId: string) {
  sent += 1;
  return { type: 'track', event: 'Order', userId, messageId: `order-${sent}` };
}

async function opened(service: LoggingService, destinations: readonly object[], audiences: readonly object[]) {
  const common = { source: 'personas', live: true, guard: { allowEmpty: true } };
  const list = { name: 'List', key: 'list', source: 'personas', sql: "select user_id from read_csv('list.csv')" };
  const app = await service.open([], {
    network: { allow: ['127.0.0.0/8'] },
    destinations,
    engines: { lake: { type: 'duckdb', path: './audiences.duckdb' } },
    audiences: [list, ...audiences.map((each) => ({ ...common, ...each }))],
  });
  await app.start({ collect: true, schedules: true });
  return app;
}

async function settled(app: App): Promise<void> {
  await caughtUp(app);
  await delivered(app);
}

/** What came since the last call: `user value reason cause`. */
function listenTo(receiver: Receiver, of: string) {
  let place = 0;
  return () => {
    const news = receiver.heard.slice(place).filter(({ key }) => key === of);
    place = receiver.heard.length;
    return news
      .map(({ userId, value, reason, cause }) => `${userId} ${value} ${reason} ${JSON.stringify(cause) ?? '-'}`)
      .toSorted();
  };
}

const BUYERS = { name: 'Buyers', key: 'buyers', when: { performed: 'Order', within: '2 days' } };

t.test('says what caused each live change', async (t) => {
  const service = loggingService(t);
  const receiver = await startReceiver(t);
  const crm = { name: 'crm', sources: ['personas'], webhookUrl: receiver.url };
  const second = await startReceiver(t);
  const other = { name: 'other', sources: ['personas'], webhookUrl: second.url };
  const loyal = { name: 'Loyal', key: 'loyal', when: { all: [{ performed: 'Order' }, { inAudience: 'list' }] } };
  const spent = { ...BUYERS, key: 'buyers' };
  writeFileSync(join(service.folder, 'list.csv'), 'user_id\nnobody\n');
  let app = await opened(service, [crm], [spent, loyal]);
  const buyers = listenTo(receiver, 'buyers');
  const members = listenTo(receiver, 'loyal');
  await settled(app);

  await t.test('an event, of several the last', async (t) => {
    const [first, last] = [order('ann'), order('ann')];
    await send(app, [first]);
    await settled(app);
    t.same(buyers(), [`ann true entered {"messageId":"${first.messageId}"}`]);
    await send(app, [last]);
    await settled(app);
    t.same(buyers(), []);
    const { changedAt } = receiver.heard.at(-1) ?? {};
    t.ok(Date.parse(String(changedAt)) <= service.clock.now());
    t.match((await app.sync.why('buyers', 'ann')).changes, [
      { reason: 'entered', changedAt: Date.parse(String(changedAt)) },
    ]);
  });

  await t.test('a synced audience', async (t) => {
    members();
    writeFileSync(join(service.folder, 'list.csv'), 'user_id\nann\n');
    t.match(await app.sync.run(['list']), [{ error: null }]);
    await settled(app);
    t.same(members(), ['ann true entered {"audience":"list"}']);
  });

  await t.test('an alias', async (t) => {
    await send(app, [{ type: 'alias', previousId: 'ann', userId: 'anna', messageId: 'merge' }]);
    await settled(app);
    t.same(buyers(), ['ann false exited {"messageId":"merge"}', 'anna true entered {"messageId":"merge"}']);
  });

  await t.test('time', async (t) => {
    service.advance(50 * HOUR);
    await settled(app);
    t.match(buyers(), [/^anna false exited \{"time":"2026-03-03T14:.*Z"\}$/]);
  });

  await t.test('a change that was on hold keeps its cause and time', async (t) => {
    await app.store.pauseAudience({ key: 'buyers', at: service.clock.now(), by: 'a test' });
    const bought = order('bob');
    await send(app, [bought]);
    await computed(app);
    const then = service.clock.now();
    t.same(buyers(), []);
    service.advance(HOUR);
    await app.store.resumeAudience('buyers');
    await settled(app);
    t.same(buyers(), [`bob true entered {"messageId":"${bought.messageId}"}`]);
    const { changedAt } = receiver.heard.findLast(({ userId }) => userId === 'bob') ?? {};
    t.ok(Date.parse(String(changedAt)) <= then, String(changedAt));
    t.match((await app.sync.why('buyers', 'bob')).changes, [
      {
        reason: 'entered',
        changedAt: Date.parse(String(changedAt)),
        cause: { event: { messageId: bought.messageId } },
      },
    ]);
  });

  await t.test('a resync repeats without one', async (t) => {
    t.equal((await app.sync.resync('buyers')).error, null);
    await settled(app);
    t.same(buyers(), ['ann false resync -', 'anna false resync -', 'bob true resync -']);
  });

  await t.test('a new destination, and one that was away', async (t) => {
    await app.close();
    app = await opened(service, [crm, other], [spent, loyal]);
    const heard = listenTo(second, 'buyers');
    await app.sync.run(['buyers']);
    await settled(app);
    t.same(heard(), ['bob true backfill -']);
    await app.close();
    app = await opened(service, [crm, { ...other, enabled: false }], [spent, loyal]);
    const [cid, dan] = [order('cid'), order('dan')];
    await send(app, [cid, dan]);
    await settled(app);
    service.advance(10 * HOUR);
    await app.close();
    app = await opened(service, [crm, other], [spent, loyal]);
    t.match((await app.sync.plan(['buyers']))[0]?.owed, [{ destination: 'other', reason: 'returning', messages: 2 }]);
    await app.sync.run(['buyers']);
    await settled(app);
    t.same(heard(), [
      `cid true returning {"messageId":"${cid.messageId}"}`,
      `dan true returning {"messageId":"${dan.messageId}"}`,
    ]);
    const { changedAt } = second.heard.at(-1) ?? {};
    t.ok(Date.parse(String(changedAt)) < service.clock.now() - 9 * HOUR, 'the time of the change that it missed');
  });

  await t.test('an edited definition', async (t) => {
    buyers();
    await send(app, [order('bob')]);
    await settled(app);
    await app.close();
    app = await opened(
      service,
      [crm, other],
      [{ ...spent, when: { performed: 'Order', atLeast: 2, within: '2 days' } }],
    );
    await settled(app);
    while (receiver.heard.filter(({ reason }) => reason === 'definition').length < 2) await settled(app);
    t.same(buyers(), ['cid false definition -', 'dan false definition -']);
  });

  await t.test('a state that is built again', async (t) => {
    await app.store.live.rebuildAll();
    await settled(app);
    t.same(buyers(), [], 'says nothing of whom nothing has changed');
  });
});

t.test('has no cause in a first build, and skips it where asked', async (t) => {
  const service = loggingService(t);
  const [receiver, second] = [await startReceiver(t), await startReceiver(t)];
  const crm = { name: 'crm', sources: ['personas'], webhookUrl: receiver.url };
  const skip = { name: 'skip', sources: ['personas'], webhookUrl: second.url, backfill: 'skip' };
  writeFileSync(join(service.folder, 'list.csv'), 'user_id\nnobody\n');
  let app = await opened(service, [crm, skip], []);
  await send(app, [order('ann')]);
  await app.close();
  app = await opened(service, [crm, skip], [BUYERS]);
  await app.sync.run(['buyers']);
  await settled(app);
  t.same(listenTo(receiver, 'buyers')(), ['ann true first_sync -']);
  t.same(listenTo(second, 'buyers')(), []);
  const bought = order('bob');
  await send(app, [bought]);
  await settled(app);
  t.same(listenTo(second, 'buyers')(), [`bob true entered {"messageId":"${bought.messageId}"}`]);
});
