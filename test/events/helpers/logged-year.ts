import type { Test } from 'tap';
import type { App } from '../../../src/app.ts';
import { COLUMNS } from '../../../src/store/events/columns.ts';
import { loggingService, send } from './logging-app.ts';

const DAY = 86_400_000;

/** Short definitions, for DuckDB; another engine has the same as SQL. */
const WHEN = {
  regular: { performed: 'Order Completed', atLeast: 2, within: '90 days' },
  lapsed: { all: [{ performed: 'Order Completed' }, { not: { performed: 'Order Completed', within: '60d' } }] },
  generous: {
    performed: 'Order Completed',
    where: { 'properties.total': { gte: 30 }, 'properties.currency': 'USD' },
  },
  pro: { trait: 'plan', is: 'pro' },
};

interface OtherEngine {
  readonly engine: object;
  readonly sql: Readonly<Record<keyof typeof WHEN, string>>;
}

/** A year of 3,000 events in the sealed files of a log, for another database that reads them. */
export async function loggedYear(t: Test) {
  const service = loggingService(t);
  const collector = await service.open();
  await collector.start({ collect: true, schedules: false });
  const now = service.clock.now();
  const events = Array.from({ length: 3_000 }, (_, n) => eventOf(n, now));
  for (let from = 0; from < events.length; from += 500) await send(collector, events.slice(from, from + 500));
  await collector.close();
  return {
    /** The configuration's, below which the log is in `events`. */
    folder: service.folder,
    /** The columns of the files as another database declares them. */
    columns: (text: string, time: string) =>
      COLUMNS.map((name) => `"${name}" ${name === 'timestamp' || name === 'received_at' ? time : text}`).join(', '),
    /** Compares the members that the other engine finds, on five dates, with those of DuckDB. */
    async compare({ engine, sql }: OtherEngine): Promise<void> {
      const engines = { lake: { type: 'duckdb', path: './audiences.duckdb' }, other: engine };
      const keys = Object.keys(WHEN) as (keyof typeof WHEN)[];
      // A held run would leave both sides with the members of an earlier date.
      const common = { source: 'personas', guard: 'off' };
      const audiences = keys.flatMap((key) => [
        { ...common, name: key, key, engine: 'lake', when: WHEN[key] },
        { ...common, name: `${key} elsewhere`, key: `${key}_other`, engine: 'other', sql: sql[key] },
      ]);
      const app = await service.open([], { engines, audiences });
      for (const at of [now - 200 * DAY, now - 100 * DAY, now - 30 * DAY, now + 20 * DAY, now + 100 * DAY]) {
        for (const { key, error } of await app.sync.run([], { now: at }))
          if (error) throw new Error(`${key}: ${error.message}`);
        for (const key of keys) {
          const [own, theirs] = [await membersOf(app, key), await membersOf(app, `${key}_other`)];
          t.strictSame(theirs, own, `${key} of ${new Date(at).toISOString().slice(0, 10)}: ${own.length} members`);
        }
      }
      t.ok((await membersOf(app, 'lapsed')).length > 50, 'there was somebody to find');
    },
  };
}

/** A year of orders and of identifies, some of which are the first to know an anonymous id. */
function eventOf(n: number, now: number): object {
  const person = (n * 7919) % 311;
  const timestamp = new Date(now - ((n * 104_729) % 365) * DAY - n * 1_000).toISOString();
  const ids = { messageId: `m${n}`, timestamp };
  if (n % 5 === 0) {
    const plan = ['pro', 'free', 'trial'][n % 3];
    return {
      ...ids,
      type: 'identify',
      userId: `u${person}`,
      anonymousId: `a${person % 97}`,
      traits: n % 4 === 0 ? { seen: n } : { plan },
    };
  }
  const who = n % 3 === 0 ? { anonymousId: `a${person % 97}` } : { userId: `u${person}` };
  const properties = { total: (n % 120) / 2, currency: n % 7 === 0 ? 'EUR' : 'USD' };
  return { ...ids, ...who, type: 'track', event: n % 2 === 0 ? 'Order Completed' : 'Viewed', properties };
}

async function membersOf(app: App, key: string): Promise<readonly string[]> {
  const found: string[] = [];
  await app.sync.members(key, async ({ userIds }) => void found.push(...userIds));
  return found.toSorted();
}
