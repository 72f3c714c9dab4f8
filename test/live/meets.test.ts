import t from 'tap';
import { standingOf } from '../../src/admin/concerns.ts';
import type { App } from '../../src/app.ts';
import { alertsOf } from '../../src/config/alerts.ts';
import { loggingService, send } from '../events/helpers/logging-app.ts';
import { startReceiver } from './helpers/receiver.ts';
import { caughtUp, computed, delivered } from './helpers/service.ts';

t.setTimeout(590_000);
const MINUTE = 60_000;

t.test('how live meets plans of what is new, pausing, and alerts of what is overdue', async (t) => {
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

  await t.test('a new one has no plan, and an error that says how to come by one', async (t) => {
    await send(collector, [order('a'), order('b')]);
    const [{ live } = {}] = await collector.sync.audiences();
    t.match(live, { hold: 'new', lag: null }, 'it does not look as if it was computed');
    await t.rejects(collector.sync.plan(['buyers']), {
      code: 'live_not_ready',
      message: /first run `rollcall audiences pause buyers`/,
    });
  });

  await t.test('it is of now: another time is refused, and nothing is computed', async (t) => {
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

  await t.test('paused first, it is computed by a sync and has a plan, and nothing is sent', async (t) => {
    await pause();
    t.same(await collector.sync.run(['buyers']), []);
    t.match(await collector.sync.plan(['buyers']), [{ key: 'buyers', entered: 2, paused: { by: 'cli:ann' } }]);
    await delivered(collector);
    t.strictSame(receiver.state('buyers'), {});
  });

  await t.test('paused while it lives, it is computed and tells nothing, until it is resumed', async (t) => {
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

  await t.test('one that is behind is overdue, and one that is computed never is', async (t) => {
    const overdue = async () => {
      const parts = { store: collector.store, destinations: [], sources: [], rules: alertsOf(undefined).rules };
      const audiences = () => collector.sync.audiences();
      const { concerns } = await standingOf({ ...parts, audiences, now: service.clock.now() });
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

  await t.test('a clock that was ahead for a while does no lasting harm', async (t) => {
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
  await t.test('what came in while nobody computed for days counts, too', async (t) => {
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
