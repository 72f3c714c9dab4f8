import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { openSession } from '../../jobs/engines/duckdb/session.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { COLUMNS } from '../../src/store/events/columns.ts';
import { folderFiles } from '../../src/store/events/files.ts';
import { Workbench } from '../../src/store/events/parquet.ts';
import { openStore } from '../../src/store/open.ts';

const DAYS = 180;
const DAY = 86_400_000;
export const NOW = Date.parse('2026-11-22T00:00:00.000Z');

/** Two copies of the same events: in the log as it is after some months, and in one plain Parquet file in the order of time. */
export interface History {
  readonly store: string;
  readonly folder: string;
  readonly plain: string;
}

/**
 * Months of a shop: two events in three are views of pages, one in ten is an order, one in twenty says who somebody is.
 *
 * @param isComparedWithPlain - whether the plain file is wanted
 */
export async function makeHistory(root: string, events: number, isComparedWithPlain = true): Promise<History> {
  const history = {
    store: join(root, 'rollcall.db'),
    folder: join(root, 'events'),
    plain: join(root, 'plain.parquet'),
  };
  await mkdir(root, { recursive: true });
  const perDay = Math.ceil(events / DAYS);
  const store = await openStore({ url: `sqlite:${history.store}`, maxQueued: 1 }, systemClock);
  const log = store.events;
  const fence = await store.takeLease('event-log', 3_600_000);
  if (log.kind !== 'files' || fence === null) throw new Error('no log in files');
  const bench = await Workbench.open(folderFiles(history.folder), () => systemClock.token(12));
  for (let day = 0; day < DAYS; day += 1) {
    const query = `SELECT ${COLUMNS.map((column) => `"${column}"`).join(', ')} FROM (${eventsOf(day, perDay)})`;
    const date = new Date(NOW - (DAYS - day) * DAY).toISOString().slice(0, 10);
    const name = `source=shop/day=${date}/${systemClock.token(12)}.parquet`;
    await log.replace(fence, [], await bench.write([{ name, source: 'shop', day: date, query }]));
  }
  await bench.close();
  await store.releaseLease(fence);
  await store.close();
  if (isComparedWithPlain) await writePlain(history);
  return history;
}

/** Users are 1/50 of the events; one in four is first seen without an id. */
function eventsOf(day: number, count: number): string {
  const users = Math.ceil((count * DAYS) / 50);
  const begin = NOW - (DAYS - day) * DAY;
  return `SELECT CAST(uuid() AS VARCHAR) AS message_id,
      CASE WHEN kind < 5 THEN 'identify' WHEN kind < 15 OR kind > 80 THEN 'track' ELSE 'page' END AS type,
      CASE WHEN kind BETWEEN 5 AND 14 THEN 'Order Completed' WHEN kind > 80 THEN 'Product Viewed' END AS event,
      CASE WHEN kind < 60 THEN 'user_' || who END AS user_id,
      CASE WHEN kind < 5 OR kind >= 60 THEN 'anonymous_' || who END AS anonymous_id,
      CAST(NULL AS VARCHAR) AS previous_id, CAST(NULL AS VARCHAR) AS group_id,
      CASE WHEN kind BETWEEN 15 AND 80 THEN 'Product' END AS name,
      moment - INTERVAL 250 MILLISECOND AS timestamp, moment AS received_at,
      CASE WHEN kind >= 5 THEN json_object('orderId', 'o-' || n, 'total', (number % 20000) / 100.0, 'currency', 'EUR', 'items', [{ sku: 'a-' || number % 500, quantity: 1 + number % 3 }]) END AS properties,
      CASE WHEN kind < 5 THEN json_object('email', 'user_' || who || '@example.com', 'plan', CASE WHEN number % 7 = 0 THEN 'pro' ELSE 'free' END) END AS traits,
      json('{"library":{"name":"@segment/analytics-node","version":"3.1.0"}}') AS context,
      json('{"integrations":{}}') AS rest
    FROM (
      SELECT n, number, number % 100 AS kind, CAST(floor(pow((number // 100) % 1000003 / 1000003.0, 2) * ${users}) AS BIGINT) AS who,
        make_timestamp(${begin}000 + n * (${DAY}000 // ${count})) AS moment
      FROM (SELECT n, hash(n + ${day * count}) // 16 AS number FROM range(${count}) AS t(n))
    )`;
}

/** In the order of time, as whoever appends to one file has them. */
async function writePlain({ folder, plain }: History): Promise<void> {
  const session = await openSession({
    ...{ path: ':memory:', readOnly: false, patience: 0, clock: systemClock },
    settings: { memory_limit: '3GB', temp_directory: `${plain}.tmp` },
  });
  const types = "{'source': VARCHAR, 'day': DATE}";
  const all = `read_parquet('${folder}/source=*/day=*/*.parquet', hive_partitioning = true, hive_types = ${types})`;
  await session.run(
    `COPY (SELECT * FROM ${all} ORDER BY received_at) TO '${plain}' (FORMAT parquet, COMPRESSION zstd)`,
  );
  await session.close();
  await rm(`${plain}.tmp`, { recursive: true, force: true });
}
