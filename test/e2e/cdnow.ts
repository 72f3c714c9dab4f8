import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Real purchases, 1997-01 to 1998-06, of 23,570 customers, kept next to the checkout. */
const FILE = fileURLToPath(new URL('../../../shared/data/CDNOW_master.txt', import.meta.url));

export interface Purchase {
  readonly customer: string;
  /** Start of the day, milliseconds since 1970, UTC. */
  readonly day: number;
  readonly cents: number;
}

const ALL = process.env['CDNOW'] === 'all';

/** Milliseconds that a test may take: all purchases take minutes, and longer on a busy machine. */
export const TIME_LIMIT = ALL ? 1_700_000 : 590_000;

/**
 * The purchases of a sample of customers; of all 23,570 with CDNOW=all (`npm run test:cdnow`), which makes 144,475
 * messages and takes a minute or two. Null if the file is absent.
 */
export function readPurchases(oneIn: number): readonly Purchase[] | null {
  const every = ALL ? 1 : oneIn;
  if (!existsSync(FILE)) return null;
  return readFileSync(FILE, 'utf8')
    .split('\n')
    .filter((line) => /^\s*\d/.test(line) && Number.parseInt(line, 10) % every === 0)
    .map((line) => {
      const [customer = '', date = '', , dollars = ''] = line.trim().split(/\s+/);
      const day = Date.parse(`${date.slice(0, 4)}-${date.slice(4, 6)}-${date.slice(6)}T00:00:00Z`);
      return { customer, day, cents: Math.round(Number(dollars) * 100) };
    });
}

/** Definitions for Rollcall, over a table `orders` (user_id, day, amount), in SQL that both engines understand. */
export const DEFINITIONS = {
  audiences: {
    first_time_buyers: `select user_id from orders where day <= $now group by user_id having min(day) > $now - interval '30 days'`,
    repeat_buyers: 'select user_id from orders where day <= $now group by user_id having count(distinct day) >= 3;',
    big_spenders: 'select user_id from orders where day <= $now group by user_id having sum(amount) > 200 -- dollars',
    lapsed: `select user_id from orders where day <= $now group by user_id having max(day) <= $now - interval '180 days'`,
  },
  traits: {
    lifetime_value: 'select user_id, sum(amount) as value from orders where day <= $now group by user_id',
  },
} as const;

const DAY = 86_400_000;

interface Customer {
  readonly days: Set<number>;
  first: number;
  last: number;
  cents: number;
}

/** The same in plain TypeScript: `key → user → value`. */
export function compute(purchases: readonly Purchase[], now: number): Map<string, Map<string, unknown>> {
  const customers = new Map<string, Customer>();
  for (const { customer, day, cents } of purchases) {
    if (day > now) continue;
    const known = customers.get(customer) ?? { days: new Set(), first: day, last: day, cents: 0 };
    customers.set(customer, known);
    known.days.add(day);
    known.first = Math.min(known.first, day);
    known.last = Math.max(known.last, day);
    known.cents += cents;
  }
  const rules: Record<string, (customer: Customer) => boolean> = {
    first_time_buyers: ({ first }) => first > now - 30 * DAY,
    repeat_buyers: ({ days }) => days.size >= 3,
    big_spenders: ({ cents }) => cents > 20_000,
    lapsed: ({ last }) => last <= now - 180 * DAY,
  };
  const result = new Map<string, Map<string, unknown>>();
  for (const [key, rule] of Object.entries(rules)) {
    result.set(key, new Map([...customers].filter(([, customer]) => rule(customer)).map(([id]) => [id, true])));
  }
  result.set('lifetime_value', new Map([...customers].map(([id, { cents }]) => [id, cents / 100])));
  return result;
}

/** 24 dates, the last ones beyond the data. */
export function dates(): readonly number[] {
  const start = Date.parse('1997-01-20T00:00:00Z');
  return Array.from({ length: 24 }, (_, index) => start + index * 29 * DAY);
}
