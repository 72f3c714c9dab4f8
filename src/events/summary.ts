import type { EventLog, FileLog, LogFile } from '../store/event-log.ts';
import type { LogFiles } from '../store/events/files.ts';
import { Workbench } from '../store/events/parquet.ts';

export interface LogSummary {
  /** Number of events, including the tail. */
  readonly events: number;
  /** Bytes on disk, without the tail. */
  readonly bytes: number;
  /** First and last day of receipt, YYYY-MM-DD in UTC. In a log of files, only sealed events count. */
  readonly from: string | null;
  readonly to: string | null;
  /** Sealed files, and events waiting to be sealed; null if the log is a table. */
  readonly files: number | null;
  readonly unsealed: number | null;
}

/** A file that differs from its record in the store. */
export interface LogFault {
  readonly file: string;
  /** `missing`, `size`, `unreadable` or `events`. */
  readonly fault: string;
}

export async function summaryOf(events: EventLog): Promise<LogSummary> {
  if (events.kind === 'table') return { ...(await events.summary()), files: null, unsealed: null };
  const { files, tail } = await events.state();
  const days = files.map(({ day }) => day).sort();
  return {
    events: files.reduce((sum, file) => sum + file.events, tail.events),
    bytes: files.reduce((sum, { bytes }) => sum + bytes, 0),
    from: days[0] ?? null,
    to: days.at(-1) ?? null,
    files: files.length,
    unsealed: tail.events,
  };
}

/**
 * Read every file of the log in full, and report those that are damaged.
 *
 * @param token - makes names that no other file has
 * @param onFile - called after each
 */
export async function verifyFiles(
  log: FileLog,
  place: LogFiles,
  token: () => string,
  onFile: (done: number, of: number) => void,
): Promise<readonly LogFault[]> {
  const faults: LogFault[] = [];
  const { files } = await log.state();
  const bench = await Workbench.open(place, token);
  try {
    for (const [index, file] of files.entries()) {
      const fault = await faultOf(bench, place, file);
      if (fault !== null) faults.push({ file: file.name, fault });
      onFile(index + 1, files.length);
    }
  } finally {
    await bench.close();
  }
  // Ignore files that were replaced in the meantime.
  const still = new Set((await log.state()).files.map(({ name }) => name));
  return faults.filter(({ file }) => still.has(file));
}

async function faultOf(bench: Workbench, place: LogFiles, file: LogFile): Promise<string | null> {
  const fault = await place.fault(file);
  if (fault !== null) return fault;
  try {
    return (await bench.count(file)) === file.events ? null : 'events';
  } catch {
    return 'unreadable';
  }
}
