import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { RollcallError } from '../kernel/errors.ts';
import type { FileLog, LogFile } from '../store/event-log.ts';

const isThere = (folder: string, { name }: LogFile) =>
  stat(join(folder, name)).then(
    () => true,
    () => false,
  );

/**
 * Refuse a folder that has none of the log's files: it is another one, or its disk is not mounted.
 *
 * @throws RollcallError `event_log_missing`
 */
export async function insistOnFolder(folder: string, log: Pick<FileLog, 'state'>): Promise<void> {
  const { files } = await log.state();
  for (const file of files) if (await isThere(folder, file)) return;
  // Another process may have merged the only file in the meantime.
  const [first] = (await log.state()).files;
  if (first === undefined || (await isThere(folder, first))) return;
  throw new RollcallError(
    'event_log_missing',
    `The event log's folder ${folder} has none of the ${files.length} files that the store knows, such as ${first.name}. Mount it or put them back, or correct eventLog.path. If they are lost: rollcall events --forget-missing.`,
  );
}

/** Return the files of the log that are not on disk. */
export async function missingFiles(folder: string, log: Pick<FileLog, 'state'>): Promise<readonly LogFile[]> {
  const missing: LogFile[] = [];
  for (const file of (await log.state()).files) if (!(await isThere(folder, file))) missing.push(file);
  return missing;
}
