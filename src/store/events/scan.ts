import type { FileLog, LoggedRow, OnEvents, Wanted } from '../event-log.ts';
import { Workbench } from './parquet.ts';

/** Times that what changed meanwhile is read again. */
const TRIES = 20;

/** A condition on events; names are literals. */
export function wantedSql({ events, everything }: Wanted): string {
  if (everything) return '(user_id IS NOT NULL OR anonymous_id IS NOT NULL)';
  const names = ["''", ...events.map((name) => `'${name.replaceAll("'", "''")}'`)].join(', ');
  return `(type IN ('identify', 'alias') OR event IN (${names})) AND (user_id IS NOT NULL OR anonymous_id IS NOT NULL)`;
}

/** Users first, each with all events in a row, then anonymous ids. */
export const BY_ID = 'user_id IS NULL, coalesce(user_id, anonymous_id)';

type Columns = readonly [
  ...[string[], string[], (string | null)[], (string | null)[], (string | null)[], (string | null)[]],
  ...[bigint[], bigint[], (string | null)[], (string | null)[], (string | null)[]],
];

/**
 * Reads the files of a log and its tail as they are at one moment.
 *
 * @param onPlace - hears the last part of it, before any event is read
 */
export async function scanFiles(
  log: FileLog,
  folder: string,
  wanted: Wanted,
  token: () => string,
  onPlace: (last: number) => Promise<void>,
  onEvents: OnEvents,
): Promise<void> {
  const bench = await Workbench.open(folder, token);
  try {
    const { files, newest } = await loaded(log, bench);
    await onPlace(newest);
    const columns = `message_id, type, event, user_id, anonymous_id, previous_id, epoch_ms("timestamp"), epoch_ms(received_at),
      CAST(properties AS varchar), CAST(traits AS varchar), CAST(context AS varchar)`;
    const names =
      'message_id, type, event, user_id, anonymous_id, previous_id, "timestamp", received_at, properties, traits, context';
    const filed =
      files.length === 0 ? '' : `UNION ALL SELECT ${names} FROM ${bench.files(files)} WHERE ${wantedSql(wanted)}`;
    const sql = `SELECT ${columns} FROM (SELECT ${names} FROM events WHERE ${wantedSql(wanted)} ${filed}) AS log ORDER BY ${BY_ID}`;
    for await (const chunk of bench.stream(sql)) await onEvents(rowsOf(chunk as unknown as Columns));
  } finally {
    bench.close();
  }
}

/** Tail and files belong together only if nothing moved between them meanwhile. */
async function loaded(log: FileLog, bench: Workbench) {
  for (let attempt = 1; attempt <= TRIES; attempt += 1) {
    const { version, files, tail } = await log.state();
    await bench.load([]);
    for (let after = 0; after < tail.newest; ) {
      const parts = await log.tail(after, tail.newest);
      if (parts.length === 0) break;
      await bench.load(parts);
      after = parts.at(-1)?.id ?? tail.newest;
    }
    await bench.plan();
    if ((await log.state()).version === version) return { files, newest: tail.newest };
  }
  throw new Error('The event log kept changing while it was read.');
}

function rowsOf(columns: Columns): LoggedRow[] {
  const [ids, types, events, users, anonymous, previous, timestamps, receipts, properties, traits, contexts] = columns;
  return ids.map((messageId, row) => ({
    messageId,
    type: types[row] ?? '',
    event: events[row] ?? null,
    userId: users[row] ?? null,
    anonymousId: anonymous[row] ?? null,
    previousId: previous[row] ?? null,
    timestamp: Number(timestamps[row]),
    receivedAt: Number(receipts[row]),
    properties: parsed(properties[row]),
    traits: parsed(traits[row]),
    context: parsed(contexts[row]),
  }));
}

export function parsed(text: string | null | undefined): unknown {
  return text === null || text === undefined ? null : JSON.parse(text);
}
