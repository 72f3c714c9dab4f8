import { join } from 'node:path';
import type { EngineConfig } from '../src/config/config.ts';
import { seesLog } from '../src/config/event-log.ts';
import { RollcallError } from '../src/errors.ts';
import type { FileLog, TailPart } from '../src/store/event-log.ts';
import type { Store } from '../src/store/port.ts';
import type { SyncConfig } from './computation.ts';

/** How often a log that changed meanwhile is read again: sealing comes every few seconds at most. */
const TRIES = 20;

/** Takes the events of the tail. */
interface TailReader {
  /** Forget the parts that were added: all of them come again. */
  restart(): Promise<unknown>;
  add(parts: readonly TailPart[]): Promise<unknown>;
}

/** The log as an engine on the same machine reads it. */
export interface LoggedEvents {
  /** Folder of the files. */
  readonly folder: string;
  /** Reads the tail and resolves to the paths of the files: together all events that there are, each of them once. */
  read(tail: TailReader): Promise<readonly string[]>;
}

/** How an engine sees the log: as files, in its own database, or not at all. */
export function eventLogFor(
  engine: EngineConfig,
  { eventLog, store }: Pick<SyncConfig, 'eventLog' | 'store'>,
  { events }: Pick<Store, 'events'>,
): { readonly eventLog?: LoggedEvents; readonly seesEvents?: boolean } {
  if (!eventLog || !store || !seesLog(engine, store.url)) return {};
  if (events.kind === 'table') return { seesEvents: true };
  return { eventLog: { folder: eventLog.path, read: (tail) => read(events, eventLog.path, tail) } };
}

async function read(log: FileLog, folder: string, tail: TailReader): Promise<readonly string[]> {
  for (let attempt = 1; attempt <= TRIES; attempt += 1) {
    const before = await log.state();
    const { last } = before.tail;
    for (let after = 0; after < last; ) {
      const parts = await log.tail(after, last);
      if (parts.length === 0) break;
      await tail.add(parts);
      after = parts.at(-1)?.id ?? last;
    }
    if ((await log.state()).version === before.version) return before.files.map(({ name }) => join(folder, name));
    await tail.restart();
  }
  throw new RollcallError('engine_failed', 'The event log kept changing while it was read.');
}
