import { join } from 'node:path';
import t from 'tap';
import { MARK, readersHoldNothing } from '../admin/readers.ts';
import { startFront } from './front.ts';

const front = await startFront();
t.teardown(() => front.stop());

/** chdb keeps a killed query in its list, although it reads no more rows. */
const RUNNING = `SELECT count() FROM system.processes
  WHERE query LIKE '%${MARK}%' AND query NOT LIKE '%processes%' AND NOT is_cancelled`;

let databases = 0;

readersHoldNothing(t, 'ClickHouse', async () => ({
  engine: { type: 'clickhouse', url: await front.database(), database: `snapshots_${databases++}` },
  packages: join(import.meta.dirname, 'node_modules'),
  slow: `select toString(number) as user_id from system.numbers as ${MARK} where sipHash64(number) = 1`,
  quick: "select concat('u', toString(number)) as user_id from numbers(3)",
  running: async () => Number(front.run(RUNNING)),
}));
