import { dayOf } from '../../../kernel/timestamp.ts';
import type { LoggedRow, LogScan, ScannedRow, TablePlace, Wanted } from '../../event-log.ts';
import { parsed } from '../../events/scan.ts';
import { EVENT_NAME, type StagingDialect, stagingOf } from '../../events/staging.ts';
import { int8 } from '../arrays.ts';
import type { StoreContext } from '../context.ts';
import { onOwnConnection } from '../own-connection.ts';

const DAY = 86_400_000;
/** Sequence numbers per page. */
const PAGE = 5_000;
/** Longer than any transaction that writes events, in milliseconds. */
const LATEST = 120_000;
/** A larger gap is not an open transaction: the sequence was moved ahead. */
const MANY = 50_000;

const COLUMNS = `
  SELECT seq, message_id, type, ${EVENT_NAME}, user_id, anonymous_id, previous_id,
    (extract(epoch FROM "timestamp") * 1000)::bigint, (extract(epoch FROM received_at) * 1000)::bigint,
    properties::text, traits::text, context::text
  FROM rollcall.event WHERE day >= $1::date AND`;
/** With both bounds, a planner without statistics uses the index too. */
const BETWEEN = `${COLUMNS} seq > $2::bigint AND seq <= $2::bigint + ${PAGE}`;
const ANY_OF = `${COLUMNS} seq = ANY ($2::bigint[])`;
const NEXT = 'SELECT seq FROM rollcall.event WHERE day >= $1::date AND seq > $2::bigint ORDER BY seq LIMIT 1';

type EventRow = readonly [
  ...[number, string, string, string | null, string | null, string | null, string | null, number, number],
  ...[string | null, string | null, string | null],
];

/** Read the rows since a place, of the last days only: rows written since were received since, or a little before. */
export async function eventsSince(db: StoreContext['db'], { last, at, missing }: TablePlace, now: number) {
  const from = dayOf(Math.min(at, now) - 2 * DAY);
  const rows = await nextRows(db, from, last);
  if (missing.length > 0) {
    const numbers = int8(missing.map(([number]) => number));
    rows.push(...(await db.rows<EventRow>(ANY_OF, [from, numbers])));
  }
  const found = new Set(rows.map(([seq]) => seq));
  const next = rows.reduce((most, [seq]) => Math.max(most, seq), last);
  const still = missing.filter(([number, since]) => !found.has(number) && now - since < LATEST);
  const fresh: (readonly [number, number])[] = [];
  if (next - last < MANY) for (let seq = last + 1; seq < next; seq += 1) if (!found.has(seq)) fresh.push([seq, now]);
  return { events: rows.map(loggedRow), place: { last: next, at: now, missing: [...still, ...fresh] } };
}

/** Read the next page of rows. Numbers may be missing: a restored copy continues far ahead. */
async function nextRows(db: StoreContext['db'], from: string, last: number): Promise<EventRow[]> {
  const rows = await db.rows<EventRow>(BETWEEN, [from, last]);
  if (rows.length > 0) return rows;
  const [[next] = [null]] = await db.rows<[number | null]>(NEXT, [from, last]);
  return next === null ? [] : db.rows<EventRow>(BETWEEN, [from, next - 1]);
}

function loggedRow([, messageId, type, event, userId, anonymousId, previousId, ...rest]: EventRow): LoggedRow {
  const [timestamp, receivedAt, properties, traits, context] = rest;
  const ids = { userId, anonymousId, previousId };
  const parts = { properties: parsed(properties), traits: parsed(traits), context: parsed(context) };
  return { messageId, type, event, ...ids, timestamp: Number(timestamp), receivedAt: Number(receivedAt), ...parts };
}

/** Sequence numbers in which to look for gaps: more than a few processes write during a transaction. */
const LOOK_BACK = 20_000;
const FETCHED = 5_000;
/** The newest number, also if a deletion has removed its row: others have read as far. */
const NEWEST = `SELECT greatest(coalesce(max(seq), 0), (SELECT last_value FROM rollcall.event_seq WHERE is_called))
  FROM rollcall.event`;

const STAGING: StagingDialect = {
  binary: ' COLLATE "C"',
  millis: (timestamp) => `CAST(round(extract(epoch FROM ${timestamp}) * 1000) AS double precision)`,
};

interface TableToScan {
  readonly url: string;
  readonly now: number;
  readonly signal: AbortSignal;
}

type ScannedTuple = readonly [
  ...[
    person: string | null,
    isAnonymous: boolean,
    id: string,
    type: string,
    event: string | null,
    linked: string | null,
  ],
  ...[happened: number, received: number, messageId: string | null],
  ...[properties: string | null, traits: string | null, context: string | null],
];

/** Scan a snapshot of the table, on a connection of its own, as it may take long. */
export function scanEvents(
  { url, now, signal }: TableToScan,
  wanted: Wanted,
  onPlace: (place: TablePlace) => Promise<void>,
  read: (scan: LogScan) => Promise<void>,
): Promise<void> {
  return onOwnConnection(url, signal, async (client, begin) => {
    const rows = async <T>(text: string) =>
      (await client.query<T[]>({ text, rowMode: 'array' })).rows as unknown as T[];
    await client.query("SET TIME ZONE 'UTC'");
    await begin('ISOLATION LEVEL REPEATABLE READ');
    const [[newest] = ['0']] = await rows<[string]>(NEWEST);
    const last = Number(newest);
    const first = Math.max(1, last - LOOK_BACK);
    const gaps = await rows<[string]>(
      `SELECT generate_series(${first}::bigint, ${last}::bigint) EXCEPT SELECT seq FROM rollcall.event WHERE seq >= ${first}`,
    );
    await onPlace({ last, at: now, missing: gaps.map(([seq]) => [Number(seq), now]) });
    const { tables, size, people, anonymous } = stagingOf(wanted, 'rollcall.event', STAGING);
    for (const [table, statement] of tables) {
      await client.query(statement);
      // Autovacuum does not analyze temporary tables, and plans depend on statistics.
      await client.query(`ANALYZE ${table}`);
    }
    const [[count, latest] = [0, 0]] = await rows<[number, number]>(size);
    async function* scanned(name: string, query: string): AsyncGenerator<readonly ScannedRow[]> {
      await client.query(`DECLARE ${name} NO SCROLL CURSOR FOR ${query}`);
      for (;;) {
        const found = await rows<ScannedTuple>(`FETCH ${FETCHED} FROM ${name}`);
        if (found.length === 0) break;
        yield found.map(scannedRow);
      }
      await client.query(`CLOSE ${name}`);
    }
    await read({
      newest: latest,
      rows: count,
      people: () => scanned('people', people),
      anonymous: () => scanned('anonymous', anonymous),
    });
  });
}

function scannedRow([person, isAnonymous, id, type, event, linked, ...rest]: ScannedTuple): ScannedRow {
  const [timestamp, receivedAt, messageId, properties, traits, context] = rest;
  const parts = { properties: parsed(properties), traits: parsed(traits), context: parsed(context) };
  return { person, isAnonymous, id, type, event, linked, timestamp, receivedAt, messageId: messageId ?? '', ...parts };
}
