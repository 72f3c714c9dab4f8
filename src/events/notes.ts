import { failpoint } from '../kernel/failpoint.ts';
import type { FileLog, TableLog } from '../store/event-log.ts';
import { idsIn } from '../store/events/erasing.ts';
import type { LogFiles } from '../store/events/files.ts';
import { Workbench } from '../store/events/parquet.ts';
import { type Erasure, eraseUsers } from './erasure.ts';
import { erasuresOf, NotesFile, notesOf } from './notes-file.ts';
import type { Sealed } from './sealing.ts';

/** Notes deletions in a log of files. Store and file both number them: a restored store is behind the file. */
export class DeletionNotes {
  private readonly file: NotesFile;
  private readonly log: FileLog;

  constructor(files: LogFiles, log: FileLog) {
    this.file = new NotesFile(files);
    this.log = log;
  }

  async add(requests: readonly Erasure[], key: string, at: number): Promise<void> {
    const last = Math.max(await this.log.deletions(), await this.last());
    await this.file.append(notesOf(requests, last + 1, key, at));
    failpoint('log_noted');
    await this.log.deleted(last + requests.length);
  }

  async isBehind(): Promise<boolean> {
    return (await this.last()) > (await this.log.deletions());
  }

  /** Repeat the deletions that the store lacks. @param onErased - rebuilds what is computed from the log */
  async apply(sealed: Sealed, key: string, onErased: () => Promise<void>): Promise<void> {
    const known = await this.log.deletions();
    const missing = (await this.file.notes()).filter(({ n }) => n > known);
    const { files } = await this.log.state();
    if (files.length > 0 && missing.length > 0) {
      const bench = await Workbench.open(sealed.files, () => sealed.clock.token(12));
      const ids = await idsIn(bench, files).finally(() => bench.close());
      await eraseUsers(sealed, erasuresOf(missing, ids, key));
    }
    await onErased();
    await this.log.deleted(missing.at(-1)?.n ?? known);
  }

  private async last(): Promise<number> {
    return (await this.file.notes()).at(-1)?.n ?? 0;
  }
}

/** Note deletions in a log that is a table, in a file of the process that carried them out. */
export async function noteInTable(
  files: LogFiles,
  requests: readonly Erasure[],
  key: string,
  at: number,
): Promise<void> {
  await new NotesFile(files).append(notesOf(requests, 1, key, at));
}

/**
 * Repeat the noted deletions, once, in a database that was restored from a copy. Deletions from before the copy find
 * nothing.
 *
 * @param onErased - rebuilds what is computed from the log
 */
export async function applyToRestored(
  files: LogFiles,
  log: TableLog,
  key: () => Promise<string>,
  onErased: () => Promise<void>,
): Promise<void> {
  const restored = await log.restored();
  if (restored === null) return;
  const file = new NotesFile(files);
  if (await file.isMarked(restored)) return;
  const notes = await file.notes();
  const erasures = notes.length > 0 ? erasuresOf(notes, await log.ids(), await key()) : [];
  for (const { ids, sources, until } of erasures) await log.forget(ids, sources, until);
  if (erasures.length > 0) await onErased();
  await file.append([{ restored }]);
}
