import t from 'tap';
import type { App } from '../../src/app.ts';
import { type Purchase, readPurchases, TIME_LIMIT } from '../e2e/cdnow.ts';
import { loggingService, send } from '../events/helpers/logging-app.ts';

t.setTimeout(TIME_LIMIT);
const DAY = 86_400_000;
const purchases = readPurchases(200);
const skip = purchases === null ? 'shared/data/CDNOW_master.txt is not here' : false;
const DATES = process.env['CDNOW'] === 'all' ? 24 : 5;
const BATCH = 200;

/** The same people by a short definition, by SQL over the log, and by the file. */
const AUDIENCES = [
  {
    key: 'regular',
    when: { performed: 'Order Completed', atLeast: 2, within: '90 days' },
    having: `count(*) filter (where "timestamp" > $now - interval '90 days') >= 2`,
    isIn: (bought: readonly Purchase[], now: number) => bought.filter(({ day }) => day > now - 90 * DAY).length >= 2,
  },
  {
    key: 'lapsed',
    when: { all: [{ performed: 'Order Completed' }, { not: { performed: 'Order Completed', within: '60d' } }] },
    having: `max("timestamp") <= $now - interval '60 days'`,
    isIn: (bought: readonly Purchase[], now: number) =>
      bought.length > 0 && bought.every(({ day }) => day <= now - 60 * DAY),
  },
  {
    key: 'generous',
    when: {
      performed: 'Order Completed',
      since: '1997-02-01',
      where: { 'properties.total': { gte: 30 }, 'properties.currency': 'USD' },
    },
    having: `count(*) filter (where "timestamp" >= timestamp '1997-02-01' and CAST(properties ->> 'total' AS double precision) >= 30) > 0`,
    isIn: (bought: readonly Purchase[]) =>
      bought.some(({ day, cents }) => day >= Date.parse('1997-02-01') && cents >= 3_000),
  },
];

t.test(
  'finds the same members by short definitions, SQL and the file, on every date of real purchases',
  { skip, timeout: TIME_LIMIT },
  async (t) => {
    const service = loggingService(t);
    const audiences = AUDIENCES.flatMap(({ key, when, having }) => [
      { name: key, key, source: 'personas', guard: { allowEmpty: true }, when },
      {
        name: `${key} by SQL`,
        key: `${key}_by_sql`,
        source: 'personas',
        guard: { allowEmpty: true },
        sql: `select user_id from tracks where event = 'Order Completed' and "timestamp" <= $now group by 1 having ${having}`,
      },
    ]);
    const app = await service.open([], { audiences });
    await app.start({ collect: true, schedules: false });
    const all = purchases ?? [];
    for (let start = 0; start < all.length; start += BATCH) {
      await send(
        app,
        all.slice(start, start + BATCH).map((purchase, index) => eventOf(purchase, start + index)),
      );
    }
    const ofCustomer = Map.groupBy(all, ({ customer }) => customer);
    const [first, last] = [Date.parse('1997-02-15'), Date.parse('1998-10-15')];
    const left = new Map(AUDIENCES.map(({ key }) => [key, 0]));
    let before: ReadonlyMap<string, readonly string[]> = new Map();
    for (let date = 0; date < DATES; date += 1) {
      const now = first + Math.round(((last - first) * date) / (DATES - 1) / DAY) * DAY;
      const members = await syncedMembers(app, now);
      for (const { key, isIn } of AUDIENCES) {
        const known = [...ofCustomer].map(
          ([customer, bought]) => [customer, bought.filter(({ day }) => day <= now)] as const,
        );
        const expected = known.flatMap(([customer, bought]) => (isIn(bought, now) ? [customer] : [])).toSorted();
        const title = `${key} of ${new Date(now).toISOString().slice(0, 10)}: ${expected.length} members`;
        t.strictSame(members.get(key), expected, title);
        t.strictSame(members.get(`${key}_by_sql`), expected, `${title}, by SQL`);
        const gone = (before.get(key) ?? []).filter((user) => !expected.includes(user)).length;
        left.set(key, (left.get(key) ?? 0) + gone);
      }
      before = members;
    }
    t.same(before.get('regular'), [], 'long after the last purchase nobody is a regular any more');
    t.ok((left.get('regular') ?? 0) > 0, `${left.get('regular')} left by the clock alone`);
  },
);

function eventOf({ customer, day, cents }: Purchase, index: number): object {
  return {
    type: 'track',
    event: 'Order Completed',
    userId: customer,
    messageId: `purchase-${index}`,
    timestamp: new Date(day).toISOString(),
    properties: { total: cents / 100, currency: 'USD' },
  };
}

/** Syncs everything as of this time; the members that each audience then has, in order. */
async function syncedMembers(app: App, now: number): Promise<ReadonlyMap<string, readonly string[]>> {
  const members = new Map<string, readonly string[]>();
  for (const { key, error } of await app.sync.run([], { now })) {
    if (error) throw error;
    const found: string[] = [];
    await app.sync.members(key, async ({ userIds }) => void found.push(...userIds));
    members.set(key, found.toSorted());
  }
  return members;
}
