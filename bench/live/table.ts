import pg from 'pg';
import { systemClock } from '../../src/kernel/clock.ts';
import { openPostgresStore } from '../../src/store/postgres/store.ts';
import { NOW } from '../log/history.ts';

const DAYS = 180;
const DAY = 86_400_000;
/** Days that are made ready at once. */
const AHEAD = 7;

/** The same months of a shop as `makeHistory` makes, in the table of a store on Postgres. */
export async function makeTable(url: string, events: number): Promise<void> {
  const store = await openPostgresStore({ url, maxQueued: 1, clock: systemClock });
  if (store.events.kind !== 'table') throw new Error('no log in a table');
  for (let day = DAYS; day > 0; day -= AHEAD) await store.events.prepare(NOW - day * DAY, 400 * DAY);
  await store.close();
  const client = new pg.Client(url);
  await client.connect();
  await client.query("SET TIME ZONE 'UTC'");
  const perDay = Math.ceil(events / DAYS);
  for (let day = DAYS; day > 0; day -= 1) await client.query(insertOf(NOW - day * DAY, perDay, events));
  await client.query('ANALYZE rollcall.event');
  await client.end();
}

let copies = 0;

/** A copy of a database to which nobody is connected; its URL. */
export async function copyOf(url: string): Promise<string> {
  copies += 1;
  const name = new URL(url).pathname.slice(1);
  const copy = new URL(url);
  copy.pathname = `/${name}_${copies}`;
  const admin = new URL(url);
  admin.pathname = '/postgres';
  const client = new pg.Client(admin.href);
  await client.connect();
  await client.query(`CREATE DATABASE ${name}_${copies} TEMPLATE ${name}`);
  await client.end();
  return copy.href;
}

function insertOf(begin: number, count: number, events: number): string {
  return `INSERT INTO rollcall.event
    SELECT CAST(moment AS date), moment, moment - interval '250 milliseconds', 'shop', CAST(gen_random_uuid() AS text),
      CASE WHEN kind < 5 THEN 'identify' WHEN kind < 15 OR kind > 80 THEN 'track' ELSE 'page' END,
      CASE WHEN kind BETWEEN 5 AND 14 THEN 'Order Completed' WHEN kind > 80 THEN 'Product Viewed' END,
      CASE WHEN kind < 60 THEN 'user_' || who END, CASE WHEN kind < 5 OR kind >= 60 THEN 'anonymous_' || who END,
      NULL, NULL, CASE WHEN kind BETWEEN 15 AND 80 THEN 'Product' END,
      CASE WHEN kind >= 5 THEN jsonb_build_object('orderId', 'o-' || n, 'total', number % 20000, 'currency', 'EUR') END,
      CASE WHEN kind < 5 THEN jsonb_build_object('email', 'user_' || who || '@example.com', 'plan', 'free') END,
      '{"library":{"name":"@segment/analytics-node","version":"3.1.0"}}', '{"integrations":{}}'
    FROM (
      SELECT n, number, number % 100 AS kind,
        CAST(floor(power((number / 100) % 1000003 / 1000003.0, 2) * ${Math.ceil(events / 50)}) AS bigint) AS who,
        timestamp '1970-01-01' + (${begin} + n * ${DAY / count}) * interval '1 millisecond' AS moment
      FROM (SELECT n, abs(hashint8extended(n, ${begin})) / 16 AS number FROM generate_series(0, ${count - 1}) AS n) AS numbers
    ) AS events`;
}
