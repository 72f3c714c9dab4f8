/** One query in a process of its own: `query.ts CONTENDER HISTORY`. Tells its figures. */
import { compile } from '../../jobs/engines/definitions/compile.ts';
import { eventsOf } from '../../jobs/engines/duckdb/event-log.ts';
import { type DuckdbSession, openSession } from '../../jobs/engines/duckdb/session.ts';
import { readStatement } from '../../jobs/engines/sql/statement.ts';
import { eventLogFor } from '../../jobs/event-log-access.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { ALL_VIEWS, DUCKDB_VIEWS, eventViews, withLikelyAt } from '../../src/store/events/views.ts';
import { openStore } from '../../src/store/open.ts';
import { peakMemoryMb } from '../harness.ts';
import { type History, NOW } from './history.ts';

const [contender = '', given = '{}'] = process.argv.slice(2);
const history = JSON.parse(given) as History;
const [how, where] = contender.split(' over ');
/** Milliseconds. */
const KEEP = 181 * 86_400_000;

// A sync has it open.
const store = where === 'log' ? await openStore({ url: `sqlite:${history.store}`, maxQueued: 1 }, systemClock) : null;

/** The log as a sync shows it, or the same views over the plain file. */
async function show(session: DuckdbSession): Promise<void> {
  if (where === 'plain') {
    await session.run(`CREATE TEMP VIEW rollcall_events AS SELECT * FROM ${withLikelyAt(`'${history.plain}'`, KEEP)}`);
    for (const { name, query } of eventViews(DUCKDB_VIEWS)) {
      await session.run(`CREATE TEMP VIEW rollcall_${name} AS ${query((other) => `rollcall_${other}`)}`);
    }
    return;
  }
  if (!store) throw new Error('no store');
  const engine = { type: 'duckdb', path: ':memory:', memoryLimit: null, threads: null, concurrency: 1 } as const;
  const eventLog = { keep: KEEP, path: history.folder, sources: null };
  const log = eventLogFor(engine, { eventLog, store: { url: 'sqlite:', maxQueued: 1 } }, store);
  if (log.eventLog) await eventsOf(session, log.eventLog).show(ALL_VIEWS);
}

const short = {
  when: {
    performed: {
      kind: 'track',
      names: ['Order Completed'],
      within: 90 * 86_400_000,
      until: 0,
      since: null,
      where: [],
    } as const,
    least: 3,
    most: null,
  },
};
const sql = `SELECT user_id FROM rollcall_tracks WHERE event = 'Order Completed' AND "timestamp" <= $now
  AND "timestamp" > $now - INTERVAL 90 DAY AND day >= CAST($now - INTERVAL 90 DAY AS date)
  GROUP BY 1 HAVING count(*) >= 3`;
const definition = how === 'short' ? compile(short, 'duckdb', () => ({ sql: '' })) : sql;

const session = await openSession({
  ...{ path: ':memory:', readOnly: false, patience: 0, clock: systemClock },
  settings: { memory_limit: '8GB' },
});
const cpuBefore = process.cpuUsage();
const start = performance.now();
await show(session);
const [[members] = []] = await session.rows(`SELECT count(*) FROM (${readStatement(definition, NOW)})`);
const seconds = (performance.now() - start) / 1000;
const { user, system } = process.cpuUsage(cpuBefore);
await session.close();
await store?.close();
process.send?.({
  // With the views, which a sync makes for each run.
  seconds,
  cpuSeconds: (user + system) / 1e6,
  members: Number(members),
  memoryMb: peakMemoryMb(),
});
