import { join } from 'node:path';
import type { EngineConfig } from '../src/config/config.ts';
import { seesLog } from '../src/config/event-log.ts';
import { filesOf } from '../src/store/events/open-files.ts';
import { readTail, type TailReader } from '../src/store/events/scan.ts';
import type { Store } from '../src/store/port.ts';
import type { SyncConfig } from './audience-or-trait.ts';

/** The event log's files, for an engine on the same machine. */
export interface LoggedEvents {
  readonly folder: string;
  /** Milliseconds for which events are kept. */
  readonly keep: number;
  /** Reads the tail and resolves to the paths of the files. Together they hold each event exactly once. */
  read(tail: TailReader): Promise<readonly string[]>;
}

/** An engine's access to the log: as files, in its own database, or none. */
export function eventLogFor(
  engine: EngineConfig,
  { eventLog, store }: Pick<SyncConfig, 'eventLog' | 'store'>,
  { events }: Pick<Store, 'events'>,
): { readonly eventLog?: LoggedEvents; readonly seesEvents?: boolean } {
  if (!eventLog || !store || !seesLog(engine, store.url)) return {};
  if (events.kind === 'table') return { seesEvents: true };
  const { keep } = eventLog;
  const place = filesOf(eventLog);
  const { folder } = place;
  const read = async (tail: TailReader) => {
    const { files } = await readTail(events, tail);
    await place.fetch(files);
    return files.map(({ name }) => join(folder, name));
  };
  return { eventLog: { folder, keep, read } };
}
