import { basename } from 'node:path';
import type { DuckDBConnection } from '@duckdb/node-api';
import {
  type AttachedDatabase,
  attachDatabase,
  type DuckdbSettings,
  differingSettings,
  type Setup,
} from '../../../src/duckdb.ts';
import type { Clock } from '../../../src/kernel/clock.ts';
import { RollcallError } from '../../../src/kernel/errors.ts';

const LOCK_RETRY = 100;
/** Milliseconds that a file stays open unused, and altogether, and that it is left to other processes then: they try more often. */
const STAYS = { unused: 1_000, most: 10_000, pause: LOCK_RETRY + 25 } as const;

/** Rules by which a process shares its engines' files with other processes. */
export interface FileUse {
  /**
   * True if readers open a file read-only, so that those of other processes may have it open too. Then a writer of this
   * process has to wait for them.
   */
  readonly sharesReading: boolean;
  /** Milliseconds to wait until another process closes the file. */
  readonly patience: number;
  /** Set if the file, or a session, may stay open for the next such use: opening it takes longer than finding a person. */
  readonly stays?: boolean;
  /** Called once if it has to wait. */
  readonly onWait?: (message: string) => void;
}

export interface OpenFileOptions extends Omit<FileUse, 'sharesReading'> {
  readonly path: string;
  readonly readOnly: boolean;
  readonly settings: DuckdbSettings;
  readonly setup?: Setup;
  readonly clock: Clock;
  /** Ends the wait. */
  readonly signal?: AbortSignal | undefined;
}

/** A file held open until `release`, which is idempotent. */
export interface HeldFile {
  /** Opens a connection that resolves names in the file, or takes one that was kept. */
  connect(): Promise<DuckDBConnection>;
  /** Closes the connection, or keeps it for the next session while the file stays open. */
  release(connection?: DuckDBConnection): Promise<void>;
}

/** A file that sessions of this process have open. */
interface Shared {
  readonly readOnly: boolean;
  readonly settings: DuckdbSettings;
  readonly database: Promise<AttachedDatabase>;
  sessions: number;
  /** The connection of the last session, if the file stays open. */
  unused: DuckDBConnection | null;
  /** Closes a file that stays open, of which no session is left. */
  endStay: (() => Promise<void>) | null;
  /** Resolves once the last session has released it. */
  closed: Promise<void> | null;
}

/** Open files by path. A process that has a file open twice loses DuckDB's lock on it when it closes one. */
const files = new Map<string, Shared>();

/**
 * Opens the file, which DuckDB locks for this process, or shares it with the sessions that have it open.
 *
 * @throws RollcallError `engine_unreachable`, naming the process that holds the file
 */
export async function holdFile(options: OpenFileOptions): Promise<HeldFile> {
  const { path, patience, clock, signal, onWait = () => {} } = options;
  const start = clock.monotonic();
  for (let tries = 0; ; tries += 1) {
    const found = await tryToHold(options);
    if (typeof found !== 'string') return found;
    if (clock.monotonic() - start >= patience) throw unreachable(path, found);
    if (tries === 0) onWait(`Waiting for ${path}: ${found}.`);
    await clock.sleep(LOCK_RETRY, signal);
  }
}

/** Resolves to the reason if others have it open. */
async function tryToHold(options: OpenFileOptions): Promise<HeldFile | string> {
  const { path, readOnly, settings, stays = false } = options;
  try {
    if (path === ':memory:') return await share(options, begin(options));
    if (stays) await takeTurn(options);
    // Work that reads other files has to read them as they are now.
    if (!stays || differingSettings(files.get(path)?.settings ?? {}, settings).length > 0)
      await files.get(path)?.endStay?.();
    while (files.get(path)?.closed) await files.get(path)?.closed;
    const open = files.get(path);
    // A session that only reads may use a file that others write to.
    const fits = !open || ((readOnly || !open.readOnly) && differingSettings(open.settings, settings).length === 0);
    if (!fits) return 'it is open here with other settings';
    const shared = open ?? begin(options);
    files.set(path, shared);
    return await share(options, shared);
  } catch (error) {
    if (error instanceof RollcallError) throw error;
    const message = error instanceof Error ? error.message : String(error);
    if (!message.includes('Could not set lock')) throw unreachable(path, message, error);
    const holder = /lock is held in (.+? \(PID \d+\))/.exec(message)?.[1];
    return holder ? `it is in use by ${holder}` : message;
  }
}

function begin({ path, readOnly, settings, setup }: OpenFileOptions): Shared {
  const database = attachDatabase({ path, name: databaseName(path), readOnly }, settings, setup);
  return { readOnly, settings, database, sessions: 0, unused: null, endStay: null, closed: null };
}

/** The beginning of the last time for which files stay open, by path. */
const turns = new Map<string, number>();

/** Begins a new time once the last one and the pause behind it are over. */
async function takeTurn({ path, clock, signal }: OpenFileOptions): Promise<void> {
  const age = clock.monotonic() - (turns.get(path) ?? Number.NEGATIVE_INFINITY);
  if (age < STAYS.most) return;
  const open = files.get(path);
  await open?.endStay?.();
  if (open || age < STAYS.most + STAYS.pause) await clock.sleep(STAYS.pause, signal);
  turns.set(path, clock.monotonic());
}

const mayStay = ({ path, stays = false, clock }: OpenFileOptions) =>
  stays && clock.monotonic() - (turns.get(path) ?? 0) < STAYS.most;

function takeUnused(shared: Shared): DuckDBConnection | null {
  const { unused } = shared;
  shared.unused = null;
  return unused;
}

async function share(options: OpenFileOptions, shared: Shared): Promise<HeldFile> {
  const { path, clock, signal } = options;
  shared.sessions += 1;
  shared.endStay = null;
  let isHere = true;
  /** Ends a session. The last one closes the file. */
  const leave = async (close: () => Promise<void>) => {
    shared.sessions -= 1;
    if (shared.sessions > 0) return;
    const end = async () => {
      shared.endStay = null;
      takeUnused(shared)?.closeSync();
      shared.closed = close().finally(() => {
        if (files.get(path) === shared) files.delete(path);
      });
      await shared.closed;
    };
    if (!mayStay(options)) return end();
    shared.endStay = end;
    const endIdle = () => {
      signal?.removeEventListener('abort', endIdle);
      // The next opening of the file waits for this, and gets its failure.
      if (shared.endStay === end) end().catch(() => {});
    };
    clock.after(STAYS.unused, endIdle);
    signal?.addEventListener('abort', endIdle, { once: true });
  };
  try {
    const database = await shared.database;
    return {
      connect: async () => takeUnused(shared) ?? database.connect(),
      async release(connection) {
        if (!isHere) return;
        isHere = false;
        if (connection && shared.sessions === 1 && mayStay(options)) shared.unused = connection;
        else connection?.closeSync();
        await leave(database.detach);
      },
    };
  } catch (error) {
    await leave(async () => {});
    throw error;
  }
}

/** DuckDB's own databases, and schemas, which a database of the same name would be confused with. */
const TAKEN: ReadonlySet<string> = new Set([
  ...['', 'memory', 'system', 'temp'],
  ...['information_schema', 'main', 'pg_catalog', 'rollcall'],
]);

/** The name of a file's database in SQL: as in DuckDB, the file's name up to its first dot. */
function databaseName(path: string): string {
  const [stem = ''] = (path === ':memory:' ? 'memory' : basename(path)).split('.');
  return TAKEN.has(stem.toLowerCase()) ? `${stem}_db` : stem;
}

function unreachable(path: string, reason: string, cause?: unknown): RollcallError {
  return new RollcallError('engine_unreachable', `Can't open ${path}: ${reason}.`, { cause });
}
