import { DuckDBInstance } from '@duckdb/node-api';
import type { Clock } from '../../../src/clock.ts';
import { RollcallError } from '../../../src/errors.ts';

const LOCK_RETRY = 200;

export interface OpenOptions {
  readonly path: string;
  readonly readOnly: boolean;
  readonly settings: Readonly<Record<string, string>>;
  /** How long to wait for another process to let go of the file, in milliseconds. */
  readonly patience: number;
  readonly clock: Clock;
}

/** A file that sessions of this process have open. */
interface Shared {
  readonly options: Readonly<Record<string, string>>;
  readonly instance: Promise<DuckDBInstance>;
  sessions: number;
}

/** An instance, and how to let go of it; again is harmless. */
export interface Held {
  readonly instance: DuckDBInstance;
  release(): Promise<void>;
}

/**
 * By path. DuckDB's own cache loses a file that is opened just as its last session closes: the next session could not
 * open it for as long as it is open.
 */
const files = new Map<string, Shared>();

/**
 * Opens the file, which DuckDB locks for this process, or shares it with the sessions that have it open.
 *
 * @throws RollcallError `engine_unreachable`, naming the process that holds the file
 */
export async function holdInstance({ path, readOnly, settings, patience, clock }: OpenOptions): Promise<Held> {
  const options = readOnly ? { ...settings, access_mode: 'READ_ONLY' } : settings;
  for (const start = clock.monotonic(); ; ) {
    try {
      if (path === ':memory:') return alone(await DuckDBInstance.create(path, { ...options }));
      const open = files.get(path);
      // A session that only reads may use a file that others write to.
      const fits = !open || isSame(open.options, options) || isSame(open.options, settings);
      if (fits) return await share(path, open ?? begin(path, options));
      if (clock.monotonic() - start >= patience) throw new Error('it is open here with other settings');
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      const mayPass = message.includes('Could not set lock');
      if (!mayPass || clock.monotonic() - start >= patience) throw unreachable(path, message, error);
    }
    await clock.sleep(LOCK_RETRY);
  }
}

function begin(path: string, options: Shared['options']): Shared {
  const shared = { options, instance: DuckDBInstance.fromCache(path, { ...options }), sessions: 0 };
  files.set(path, shared);
  return shared;
}

async function share(path: string, shared: Shared): Promise<Held> {
  shared.sessions += 1;
  let isHere = true;
  /** Whether nobody is left. */
  const leave = () => {
    shared.sessions -= 1;
    if (shared.sessions === 0) files.delete(path);
    return shared.sessions === 0;
  };
  try {
    const instance = await shared.instance;
    return {
      instance,
      async release() {
        if (!isHere) return;
        isHere = false;
        if (shared.sessions === 1) await writeOut(instance);
        if (leave()) instance.closeSync();
      },
    };
  } catch (error) {
    leave();
    throw error;
  }
}

/**
 * Writes what the file's log holds into the file. To close it does so, too, but on this thread: 0.2 s for 100,000 changes
 * among a million members, in which the process would neither take calls nor renew leases. What fails here, closing tries again.
 */
async function writeOut(instance: DuckDBInstance): Promise<void> {
  try {
    const connection = await instance.connect();
    await connection.run('CHECKPOINT').finally(() => connection.closeSync());
  } catch {
    // A read-only one has nothing to write.
  }
}

const alone = (instance: DuckDBInstance): Held => ({ instance, release: async () => instance.closeSync() });

function isSame(one: Shared['options'], other: Shared['options']): boolean {
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => one[name] === other[name]);
}

function unreachable(path: string, message: string, cause: unknown): RollcallError {
  const holder = /lock is held in (.+? \(PID \d+\))/.exec(message)?.[1];
  const reason = holder ? `it is in use by ${holder}` : message;
  return new RollcallError('engine_unreachable', `Can't open ${path}: ${reason}.`, { cause });
}
