import t from 'tap';
import { type Purchase, readPurchases } from '../e2e/cdnow.ts';
import { loggingService, START, send } from '../events/helpers/logging-app.ts';
import { caughtUp, membersOf } from './helpers/service.ts';

t.setTimeout(900_000);
const DAY = 86_400_000;
const ALL = process.env['CDNOW'] === 'all';
const purchases = readPurchases(ALL ? Number.POSITIVE_INFINITY : 300);
const skip = purchases === null ? 'shared/data/CDNOW_master.txt is not here' : false;
const INSTANTS = ALL ? 200 : 8;

const AUDIENCES = [
  {
    key: 'regular',
    when: { performed: 'Order Completed', atLeast: 2, within: '90 days' },
    isIn: (bought: readonly number[], now: number) => bought.filter((at) => at > now - 90 * DAY).length >= 2,
  },
  {
    key: 'lapsed',
    when: { all: [{ performed: 'Order Completed' }, { not: { performed: 'Order Completed', within: '60d' } }] },
    isIn: (bought: readonly number[], now: number) => bought.length > 0 && bought.every((at) => at <= now - 60 * DAY),
  },
];

t.test('finds the members that the file gives, at any instant of real purchases', { skip }, async (t) => {
  const service = loggingService(t);
  const app = await service.open([], {
    // Longer than the file.
    eventLog: { path: './events', keep: '1000d' },
    audiences: AUDIENCES.map(({ key, when }) => ({ name: key, key, source: 'personas', live: true, when })),
  });
  await app.start({ collect: true, schedules: true });
  // The file begins in 1997, and the service's clock later.
  const all = purchases ?? [];
  const shift = START + DAY - Math.min(...all.map(({ day }) => day));
  const waiting = all.map((purchase) => ({ ...purchase, day: purchase.day + shift })).toSorted((a, b) => a.day - b.day);
  const last = (waiting.at(-1)?.day ?? 0) + 100 * DAY;
  const known = new Map<string, number[]>();
  let left = 0;
  let before: ReadonlySet<string> = new Set();
  let compared = 0;
  for (const instant of instants(last)) {
    service.advance(instant - service.clock.now());
    const end = waiting.findIndex(({ day }) => day > instant);
    const bought = waiting.splice(0, end < 0 ? waiting.length : end);
    for (const { customer, day } of bought) known.set(customer, [...(known.get(customer) ?? []), day]);
    for (let from = 0; from < bought.length; from += 200) await send(app, bought.slice(from, from + 200).map(eventOf));
    await caughtUp(app);
    const now = service.clock.now();
    for (const { key, isIn } of AUDIENCES) {
      const expected = new Set([...known].flatMap(([customer, days]) => (isIn(days, now) ? [customer] : [])));
      const members = new Set((await membersOf(app, key)).keys());
      const others = [...known.keys()].filter((customer) => expected.has(customer) !== members.has(customer));
      if (others.length > 0) t.fail(`${key} at ${now}: ${others.length} differ, such as ${others[0]}`);
      compared += known.size;
      if (key === 'regular') {
        left += [...before].filter((customer) => !expected.has(customer)).length;
        before = expected;
      }
    }
  }
  t.ok(
    left > 0,
    `${compared} answers at ${INSTANTS} instants of ${known.size} customers; ${left} left by the clock alone`,
  );
});

let sent = 0;
function eventOf({ customer, day, cents }: Purchase): object {
  sent += 1;
  return {
    type: 'track',
    event: 'Order Completed',
    userId: customer,
    messageId: `purchase-${sent}`,
    timestamp: new Date(day).toISOString(),
    properties: { total: cents / 100 },
  };
}

/** Random ones, in order. */
function instants(last: number): readonly number[] {
  let state = 20261122;
  const random = () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
  const times = Array.from({ length: INSTANTS - 1 }, () => Math.round(START + 2 * DAY + random() * (last - START)));
  return [...times, last].toSorted((a, b) => a - b);
}
