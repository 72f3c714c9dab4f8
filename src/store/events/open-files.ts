import type { EventLogConfig } from '../../config/config.ts';
import { bucketFiles } from '../bucket/bucket-files.ts';
import { folderFiles, type LogFiles } from './files.ts';

const opened = new WeakMap<EventLogConfig, LogFiles>();

/** The files of the configured log. Null stands for no log, whose files nobody asks for. */
export function filesOf(eventLog: EventLogConfig | null): LogFiles {
  if (eventLog === null) return folderFiles('');
  const { path, bucket } = eventLog;
  const files = opened.get(eventLog) ?? (bucket ? bucketFiles(bucket, path, bucket.cacheBytes) : folderFiles(path));
  opened.set(eventLog, files);
  return files;
}
