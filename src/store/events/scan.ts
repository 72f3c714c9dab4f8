import { RollcallError } from '../../kernel/errors.ts';
import type { FileLog, LogScan, LogState, ScannedRow, TailPart, Wanted } from '../event-log.ts';
import type { LogFiles } from './files.ts';
import { Workbench } from './parquet.ts';
import { type StagingDialect, stagingOf } from './staging.ts';

/** Tries to read a log that keeps changing: sealing runs every few seconds at most. */
const TRIES = 20;

const DUCKDB: StagingDialect = {
  binary: '',
  millis: (timestamp) => `CAST(epoch_ms(${timestamp}) AS double)`,
};

const NAMES =
  'message_id, type, event, name, user_id, anonymous_id, previous_id, "timestamp", received_at, properties, traits, context';

type Columns = readonly [
  ...[(string | null)[], boolean[], string[], string[], (string | null)[], (string | null)[], number[], number[]],
  ...[(string | null)[], (string | null)[], (string | null)[], (string | null)[]],
];

interface FilesToScan {
  readonly log: FileLog;
  readonly place: LogFiles;
  readonly token: () => string;
  readonly signal: AbortSignal;
}

/**
 * Read a snapshot of the files of a log and its tail.
 *
 * @param onPlace - called with the id of the snapshot's last part, before anything is read
 */
export async function scanFiles(
  { log, place, token, signal }: FilesToScan,
  wanted: Wanted,
  onPlace: (last: number) => Promise<void>,
  read: (scan: LogScan) => Promise<void>,
): Promise<void> {
  const bench = await Workbench.open(place, token);
  const interrupt = () => bench.interrupt();
  signal.addEventListener('abort', interrupt);
  try {
    signal.throwIfAborted();
    const { events, newest } = await loadLog(log, bench);
    await onPlace(newest);
    const { tables, size, people, anonymous } = stagingOf(wanted, events, DUCKDB);
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
    await bench.close();
  }
}

async function* scanned(bench: Workbench, query: string): AsyncGenerator<readonly ScannedRow[]> {
  for await (const chunk of bench.stream(query)) yield rowsOf(chunk as unknown as Columns);
}

export interface TailReader {
  /** Forget the parts added so far: all of them are sent again. */
  restart(): Promise<unknown>;
  add(parts: readonly TailPart[]): Promise<unknown>;
}

/** Read the tail, again if any of it moved to files; resolve to the state of the log at that moment. */
export async function readTail(log: FileLog, { restart, add }: TailReader): Promise<LogState> {
  for (let attempt = 1; attempt <= TRIES; attempt += 1) {
    const state = await log.state();
    const { last } = state.tail;
    for (let after = 0; after < last; ) {
      const parts = await log.tail(after, last);
      if (parts.length === 0) break;
      await add(parts);
      after = parts.at(-1)?.id ?? last;
    }
    if ((await log.state()).version === state.version) return state;
    await restart();
  }
  throw new RollcallError('engine_failed', 'The event log kept changing while it was read.');
}

/** Load the tail into a table `events`; resolve to the state of the log at that moment. */
export async function loadTail(log: FileLog, bench: Workbench): Promise<LogState> {
  await bench.load([]);
  const restart = async () => {
    await bench.plan();
    await bench.load([]);
  };
  const state = await readTail(log, { restart, add: (parts) => bench.load(parts) });
  await bench.plan();
  return state;
}

/** Load a snapshot of the log: a FROM item with its events, and the number of the last part of its tail. */
export async function loadLog(log: FileLog, bench: Workbench) {
  const state = await loadTail(log, bench);
  const filed = state.files.length === 0 ? '' : `UNION ALL SELECT ${NAMES} FROM ${await bench.files(state.files)}`;
  return { events: `(SELECT ${NAMES} FROM events ${filed})`, newest: state.tail.newest };
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
