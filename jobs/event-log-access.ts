import { join } from 'node:path';
import type { EngineConfig } from '../src/config/config.ts';
import { seesLog } from '../src/config/event-log.ts';
import { readTail, type TailReader } from '../src/store/events/scan.ts';
import type { Store } from '../src/store/port.ts';
import type { SyncConfig } from './audience-or-trait.ts';

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
  const { path: folder } = eventLog;
  const read = async (tail: TailReader) => {
    const { files } = await readTail(events, tail);
    return files.map(({ name }) => join(folder, name));
  };
  return { eventLog: { folder, read } };
}
