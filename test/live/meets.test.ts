import t from 'tap';
import { standingOf } from '../../src/admin/concerns.ts';
import type { App } from '../../src/app.ts';
import { alertsOf } from '../../src/config/alerts.ts';
import { loggingService, send } from '../events/helpers/logging-app.ts';
import { startReceiver } from './helpers/receiver.ts';
import { caughtUp, computed, delivered } from './helpers/service.ts';

t.setTimeout(590_000);
const MINUTE = 60_000;

t.test('combines live audiences with plans of new ones, pausing and alerts of overdue ones', async (t) => {
  const service = loggingService(t);
  const receiver = await startReceiver(t);
  const config = {
    network: { allow: ['127.0.0.0/8'] },
    destinations: [{ name: 'crm', sources: ['personas'], webhookUrl: receiver.url }],
    audiences: [
      { name: 'Buyers', source: 'personas', live: true, when: { performed: 'Order', within: '2 days' } },
      { name: 'Ever', source: 'personas', live: true, when: { performed: 'Order' } },
      { name: 'Hourly', source: 'personas', schedule: '0 * * * *', when: { performed: 'Order' } },
    ],
  };
  const collector = await service.open([], config);
  await collector.start({ collect: true, schedules: false });
  const pause = () => collector.store.pauseAudience({ key: 'buyers', at: service.clock.now(), by: 'cli:ann' });
  let leader: App | null = null;

  await t.test('refuses a plan of a new one with an error that says how to get one', async (t) => {
    await send(collector, [order('a'), order('b')]);
    const [{ live } = {}] = await collector.sync.audiences();
    t.match(live, { hold: 'new', lag: null }, 'it does not look as if it was computed');
    await t.rejects(collector.sync.plan(['buyers']), {
      code: 'live_not_ready',
      message: /first run `rollcall audiences pause buyers`/,
    });
  });

  await t.test('refuses another time than now, and computes nothing', async (t) => {
    const time = { now: service.clock.now() - 24 * 60 * MINUTE };
    const all: readonly (() => Promise<unknown>)[] = [
      () => collector.sync.run([], time),
      () => collector.sync.plan(['hourly', 'buyers'], time),
      () => collector.sync.resync('buyers', time),
    ];
    for (const asked of all)
      await t.rejects(asked, { code: 'bad_usage', message: /Live, so that no other time can be asked for: buyers/ });
    t.match(await collector.sync.plan(['hourly'], time), [{ key: 'hourly' }]);
  });

  await t.test('computes one paused before its first sync, plans it and sends nothing', async (t) => {
    await pause();
    t.same(await collector.sync.run(['buyers']), []);
    t.match(await collector.sync.plan(['buyers']), [{ key: 'buyers', entered: 2, paused: { by: 'cli:ann' } }]);
    await delivered(collector);
    t.strictSame(receiver.state('buyers'), {});
  });

  await t.test('computes one paused while live, and sends nothing until it is resumed', async (t) => {
    leader = await service.open([], config);
    await leader.start({ collect: true, schedules: true });
    await send(leader, [order('c')]);
    await computed(leader);
    t.match(await leader.sync.plan(['buyers']), [{ entered: 3 }]);
    await leader.store.resumeAudience('buyers');
    await caughtUp(leader);
    await delivered(leader);
    t.strictSame(receiver.state('buyers'), { a: true, b: true, c: true });
    await pause();
    service.advance(49 * 60 * MINUTE);
    await send(leader, [order('d')]);
    await computed(leader);
    t.match(await leader.sync.plan(['buyers']), [{ exited: 3, entered: 1 }]);
    await delivered(leader);
    t.strictSame(receiver.state('buyers'), { a: true, b: true, c: true }, 'nobody hears of it');
    await leader.store.resumeAudience('buyers');
    await caughtUp(leader);
    await delivered(leader);
    t.strictSame(receiver.state('buyers'), { d: true }, 'who came and went meanwhile, too');
  });

  await t.test('reports one that is behind as overdue, never one that is computed', async (t) => {
    const overdue = async () => {
      const parts = { store: collector.store, destinations: [], sources: [], rules: alertsOf(undefined).rules };
      const audiences = () => collector.sync.audiences();
      const { concerns } = await standingOf({ ...parts, audiences, now: service.clock.now(), logTrouble: null });
      return concerns.flatMap(({ kind, subject }) => (kind === 'runOverdue' && subject === 'buyers' ? [kind] : []));
    };
    service.advance(5 * MINUTE);
    await computed(collector);
    t.same(await overdue(), [], 'although its last run was long ago');
    await leader?.close();
    await send(collector, [order('e')]);
    service.advance(MINUTE);
    t.same(await overdue(), []);
    service.advance(2 * MINUTE);
    t.same(await overdue(), ['runOverdue'], 'nobody computes it');
    await pause();
    t.same(await overdue(), [], 'nobody waits for one that is paused');
    await collector.store.resumeAudience('buyers');
    leader = await service.open([], config);
    await leader.start({ collect: true, schedules: true });
    await caughtUp(leader);
    t.same(await overdue(), []);
    await delivered(leader);
    t.strictSame(receiver.state('buyers'), { d: true, e: true });
  });

  await t.test('recovers from a clock that was ahead for a while', async (t) => {
    const [collected, led] = [collector, leader as unknown as App];
    const heard = async (users: string) => {
      while (Object.keys(receiver.state('buyers')).join('') !== users)
        await new Promise((done) => setTimeout(done, 20));
    };
    service.setAhead(3 * 24 * 60 * MINUTE);
    await heard('');
    await send(collected, [order('f')]);
    await heard('f');
    service.setAhead(0);
    await heard('def');
    await send(collected, [order('g')]);
    await heard('defg');
    service.advance(49 * 60 * MINUTE);
    await heard('f');
    await caughtUp(led);
    t.pass('those who were there by its time are there again, and leave by the time of now');
  });
  await t.test('counts events received while nothing was computed for days', async (t) => {
    await leader?.close();
    await send(collector, [order('late')]);
    service.advance(5 * 24 * 60 * MINUTE);
    leader = await service.open([], config);
    await leader.start({ collect: true, schedules: true });
    await send(leader, [order('now')]);
    while (!('now' in receiver.state('ever'))) await new Promise((done) => setTimeout(done, 20));
    await delivered(leader);
    t.ok('late' in receiver.state('ever'));
  });
  t.same(receiver.faults, []);
});

let sent = 0;
function order(userId: string): object {
  sent += 1;
  return { type: 'track', event: 'Order', userId, messageId: `order-${sent}` };
}
