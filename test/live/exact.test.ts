import t, { type Test } from 'tap';
import type { App } from '../../src/app.ts';
import { EventLogKeeper } from '../../src/events/keeper.ts';
import { silentLogger } from '../../src/kernel/log.ts';
import { folderFiles } from '../../src/store/events/files.ts';
import { type LoggingService, loggingService, send } from '../events/helpers/logging-app.ts';
import { randomEvents, seeded } from './helpers/events.ts';
import { startReceiver } from './helpers/receiver.ts';
import { caughtUp, delivered, membersOf } from './helpers/service.ts';

t.setTimeout(590_000);
/** Instants at which all is compared; LIVE_ROUNDS makes more. */
const ROUNDS = Number(process.env['LIVE_ROUNDS'] ?? 2);
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** Shorter than the windows: what the log forgets shows. */
const KEEP = 6 * HOUR;

const AUDIENCES = {
  once: { performed: 'Order' },
  twice: { performed: 'Order', atLeast: 2, within: '3 days' },
  large: { performed: 'Order', within: '2 days', where: { 'properties.total': { gt: 50 } } },
  some: { performed: 'Order', atLeast: 1, atMost: 2, within: '4 days' },
  silent: { not: { performed: 'Order', within: '36 hours' } },
  pro: { trait: 'plan', is: 'pro' },
  listed: { all: [{ inAudience: 'list' }, { not: { performed: 'Order', within: '36 hours' } }] },
  unlisted: { not: { inAudience: 'list' } },
  mixed: { any: [{ all: [{ inAudience: 'twice' }, { inAudience: 'pro' }] }, { not: { inAudience: 'once' } }] },
};
/** Computed by SQL; live ones know its members as last synced. */
const LIST = `SELECT user_id FROM tracks WHERE user_id IS NOT NULL AND "timestamp" > $now - INTERVAL '2 days' AND "timestamp" <= $now
  GROUP BY user_id HAVING count(*) >= 2`;
const TRAITS = {
  orders: { count: 'Order', within: '3 days' },
  spent: { sum: 'Order', of: 'properties.total' },
  last_item: { last: 'Order', of: 'properties.item', within: '2 days' },
  items: { uniqueList: 'Order', of: 'properties.item' },
};

t.test('keeps live audiences as the SQL says, whoever leads, and sends receivers exactly that', async (t) => {
  const service = loggingService(t);
  const receiver = await startReceiver(t);
  const random = seeded(Number(process.env['LIVE_SEED'] ?? 7));
  let leader = await opened(service, receiver.url);
  const [collector] = [await opened(service, receiver.url, false)];
  const first = Math.floor(service.clock.now() / DAY);
  let forgotten = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    for (let batch = 0; batch < 3; batch += 1) await send(collector, events(random, service.clock.now()));
    service.advance(Math.round(random() * 30 * HOUR));
    if (round === 1) {
      await leader.close();
      leader = await opened(service, receiver.url);
    }
    await send(collector, events(random, service.clock.now()));
    if ((await forgetDays(collector, service)) > first) forgotten += 1;
    await caughtUp(leader);
    await compare(t, leader, service.clock.now(), `round ${round}`);
  }
  t.ok(forgotten > 0, 'the log has forgotten days');
  await collectorForgets(t, collector, leader, service);
  await delivered(leader);
  for (const key of [...Object.keys(AUDIENCES), ...Object.keys(TRAITS)]) {
    const members = await membersOf(leader, key);
    t.strictSame(receiver.state(key), Object.fromEntries(members), `receivers know ${key} as it is`);
  }
});

async function collectorForgets(t: Test, collector: App, leader: App, service: LoggingService): Promise<void> {
  const users = ['u1', 'u2'];
  const id = await collector.regulations.file({ type: 'DELETE_ONLY', sources: null, userIds: users });
  while ((await collector.store.regulation(id))?.status !== 'FINISHED') await service.clock.sleep(50);
  await caughtUp(leader);
  await compare(t, leader, service.clock.now(), 'after a deletion');
}

/** Now, as otherwise it happens some seconds later. Resolves to the first day that the log has then. */
async function forgetDays({ store }: App, { clock, folder }: LoggingService): Promise<number> {
  const oldest = Math.floor((clock.now() - KEEP) / DAY);
  for (;;) {
    const keeper = new EventLogKeeper({
      store,
      live: store.live,
      clock,
      log: silentLogger,
      files: folderFiles(`${folder}/events`),
      keep: () => KEEP,
    });
    await keeper.start();
    await keeper.stop();
    const first = await store.events.firstDay();
    if (first >= oldest) return first;
  }
}

async function opened(service: LoggingService, url: string, schedules = true): Promise<App> {
  const common = { source: 'personas', guard: { allowEmpty: true } };
  const both = <K extends string>(given: Readonly<Record<string, object>>, field: K) =>
    Object.entries(given).flatMap(([key, said]) => [
      { name: key, key, live: true, ...common, [field]: said },
      { name: `${key} by SQL`, key: `${key}_by_sql`, ...common, [field]: said },
    ]);
  const app = await service.open([], {
    network: { allow: ['127.0.0.0/8'] },
    eventLog: { path: './events', keep: `${KEEP / HOUR}h` },
    destinations: [
      { name: 'crm', sources: ['personas'], webhookUrl: url, audiences: Object.keys({ ...AUDIENCES, ...TRAITS }) },
    ],
    audiences: [...both(AUDIENCES, 'when'), { name: 'list', key: 'list', sql: LIST, ...common }],
    traits: both(TRAITS, 'value'),
  });
  await app.start({ collect: true, schedules });
  return app;
}

async function compare(t: Test, app: App, now: number, when: string): Promise<void> {
  const keys = [...Object.keys(AUDIENCES), ...Object.keys(TRAITS)];
  const byLaw = keys.map((key) => `${key}_by_sql`);
  const reports = await app.sync.run(['list', ...byLaw], { now });
  for (const { error } of reports) if (error) throw error;
  await caughtUp(app);
  for (const key of keys) {
    const [live, sql] = [await membersOf(app, key), await membersOf(app, `${key}_by_sql`)];
    t.strictSame(Object.fromEntries(live), Object.fromEntries(sql), `${when}: ${key} has ${sql.size}`);
  }
}

const events = (random: () => number, now: number) => randomEvents(random, now, { count: 40, span: 100 * HOUR });
