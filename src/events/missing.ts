import { RollcallError } from '../kernel/errors.ts';
import type { FileLog, LogFile } from '../store/event-log.ts';
import type { LogFiles } from '../store/events/files.ts';

/**
 * Refuse a place that has none of the log's files: it is another one, or its disk is not mounted.
 *
 * @throws RollcallError `event_log_missing`
 */
export async function insistOnFiles(place: LogFiles, log: Pick<FileLog, 'state'>): Promise<void> {
  const { files } = await log.state();
  for (const { name } of files) if (await place.isThere(name)) return;
  // Another process may have merged the only file in the meantime.
  const [first] = (await log.state()).files;
  if (first === undefined || (await place.isThere(first.name))) return;
  throw new RollcallError(
    'event_log_missing',
    `The event log's folder ${place.place} has none of the ${files.length} files that the store knows, such as ${first.name}. Mount it or put them back, or correct eventLog.path. If they are lost: rollcall events --forget-missing.`,
  );
}

/** Return the files of the log that are not there. */
export async function missingFiles(place: LogFiles, log: Pick<FileLog, 'state'>): Promise<readonly LogFile[]> {
  const missing: LogFile[] = [];
  for (const file of (await log.state()).files) if (!(await place.isThere(file.name))) missing.push(file);
  return missing;
}
