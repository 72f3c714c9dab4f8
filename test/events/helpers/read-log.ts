import pg from 'pg';
import { eventsOf } from '../../../jobs/engines/duckdb/event-log.ts';
import { openSession } from '../../../jobs/engines/duckdb/session.ts';
import { eventLogFor } from '../../../jobs/event-log-access.ts';
import { systemClock } from '../../../src/kernel/clock.ts';
import { openStore } from '../../../src/store/open.ts';
import type { LogPlace } from './crash-terms.ts';

const CONTENTS = `SELECT message_id, user_id, CAST(day AS varchar), CAST(count(*) AS varchar) FROM`;

export interface Logged {
  readonly messageId: string;
  readonly userId: string;
  readonly day: string;
  readonly count: number;
}

/** The log of a store, as an engine sees it. */
export async function readLog(url: string, place: LogPlace): Promise<readonly Logged[]> {
  const rows = url.startsWith('sqlite:') ? await fromFiles(url, place) : await fromTable(url);
  return rows.map(([messageId, userId, day, count]) => ({
    ...{ messageId: String(messageId), userId: String(userId), day: String(day), count: Number(count) },
  }));
}

async function fromFiles(url: string, place: LogPlace): Promise<readonly unknown[][]> {
  const store = await openStore({ url, maxQueued: 1 }, systemClock);
  const session = await openSession({
    ...{ path: ':memory:', readOnly: false, settings: {}, patience: 0, clock: systemClock },
  });
  try {
    const engine = { type: 'duckdb', path: ':memory:', memoryLimit: null, threads: 1, concurrency: 1 } as const;
    const config = { eventLog: { keep: 1, sources: null, ...place }, store: { url: 'sqlite:', maxQueued: 1 } };
    const { eventLog } = eventLogFor(engine, config, store);
    if (!eventLog) throw new Error('no log');
    await eventsOf(session, eventLog).show(new Set(['events']));
    return await session.rows(`${CONTENTS} events GROUP BY ALL`);
  } finally {
    await session.close();
    await store.close();
  }
}

async function fromTable(url: string): Promise<readonly unknown[][]> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    const query = { text: `${CONTENTS} rollcall_events.events GROUP BY 1, 2, 3`, rowMode: 'array' } as const;
    return (await client.query(query)).rows;
  } finally {
    await client.end();
  }
}
