import type { FileLog, LogScan, ScannedRow, Wanted } from '../event-log.ts';
import { Workbench } from './parquet.ts';
import { type StagingDialect, stagingOf } from './staging.ts';

/** How often a log that changed meanwhile is read again. */
const TRIES = 20;

const DUCKDB: StagingDialect = {
  binary: '',
  millis: (timestamp) => `CAST(epoch_ms(${timestamp}) AS double)`,
};

const NAMES =
  'message_id, type, event, user_id, anonymous_id, previous_id, "timestamp", received_at, properties, traits, context';

type Columns = readonly [
  ...[(string | null)[], boolean[], string[], string[], (string | null)[], (string | null)[], number[], number[]],
  ...[(string | null)[], (string | null)[], (string | null)[], (string | null)[]],
];

interface FilesToScan {
  readonly log: FileLog;
  readonly folder: string;
  readonly token: () => string;
  readonly signal: AbortSignal;
}

/**
 * Reads the files of a log and its tail as they are at one moment.
 *
 * @param onPlace - hears the last part of it, before anything is read
 */
export async function scanFiles(
  { log, folder, token, signal }: FilesToScan,
  wanted: Wanted,
  onPlace: (last: number) => Promise<void>,
  read: (scan: LogScan) => Promise<void>,
): Promise<void> {
  const bench = await Workbench.open(folder, token);
  const interrupt = () => bench.interrupt();
  signal.addEventListener('abort', interrupt);
  try {
    signal.throwIfAborted();
    const { files, newest } = await loaded(log, bench);
    await onPlace(newest);
    const filed = files.length === 0 ? '' : `UNION ALL SELECT ${NAMES} FROM ${bench.files(files)}`;
    const { tables, size, people, anonymous } = stagingOf(
      wanted,
      `(SELECT ${NAMES} FROM events ${filed}) AS log`,
      DUCKDB,
    );
    for (const [, statement] of tables) await bench.rows(statement);
    const [[rows, latest] = []] = await bench.rows(size);
    await read({
      newest: Number(latest),
      rows: Number(rows),
      people: () => scanned(bench, people),
      anonymous: () => scanned(bench, anonymous),
    });
  } finally {
    signal.removeEventListener('abort', interrupt);
    bench.close();
  }
}

async function* scanned(bench: Workbench, query: string): AsyncGenerator<readonly ScannedRow[]> {
  for await (const chunk of bench.stream(query)) yield rowsOf(chunk as unknown as Columns);
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

function rowsOf(columns: Columns): ScannedRow[] {
  const [persons, anonymous, ids, types, events, linked, happened, received, messages, ...parts] = columns;
  const [properties, traits, contexts] = parts;
  return ids.map((id, row) => ({
    person: persons[row] ?? null,
    isAnonymous: anonymous[row] ?? false,
    id,
    type: types[row] ?? '',
    event: events[row] ?? null,
    linked: linked[row] ?? null,
    timestamp: happened[row] ?? 0,
    receivedAt: received[row] ?? 0,
    messageId: messages[row] ?? '',
    properties: parsed(properties[row]),
    traits: parsed(traits[row]),
    context: parsed(contexts[row]),
  }));
}

export function parsed(text: string | null | undefined): unknown {
  return text === null || text === undefined ? null : JSON.parse(text);
}
