import { open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { failpoint } from '../failpoint.ts';
import type { FileLog } from '../store/event-log.ts';
import { userIds } from '../store/events/erasing.ts';
import { Workbench } from '../store/events/parquet.ts';
import { userHash } from '../store/user-hash.ts';
import { type Erasure, eraseUsers } from './erasure.ts';
import type { Sealed } from './sealing.ts';

const FILE = 'deletions.jsonl';

/** One deletion, by hashes of the users. */
interface Note {
  readonly n: number;
  readonly at: number;
  readonly sources: readonly string[] | null;
  readonly hashes: readonly string[];
}

/**
 * Who was deleted, in a file beside the log, as keyed hashes. A backup of the store knows nothing of deletions after it;
 * restored, it finds them here.
 */
export class DeletionNotes {
  private readonly path: string;
  private readonly log: FileLog;

  constructor(folder: string, log: FileLog) {
    this.path = join(folder, FILE);
    this.log = log;
  }

  async add(requests: readonly Erasure[], key: string, at: number): Promise<void> {
    let n = Math.max(await this.log.deletions(), (await this.read()).at(-1)?.n ?? 0);
    const notes = requests.map(({ users, sources }): Note => {
      n += 1;
      return { n, at, sources, hashes: users.map((user) => userHash(key, '', user).toString('base64url')) };
    });
    const file = await open(this.path, 'a');
    try {
      // On a line of its own, even after one that was cut off.
      await file.write(`\n${notes.map((note) => JSON.stringify(note)).join('\n')}\n`);
      await file.sync();
    } finally {
      await file.close();
    }
    failpoint('log_noted');
    await this.log.deleted(n);
  }

  /** Whether the store does not know of all of them. */
  async isBehind(): Promise<boolean> {
    return ((await this.read()).at(-1)?.n ?? 0) > (await this.log.deletions());
  }

  /** Carries out those that the store does not know of, once more. */
  async apply(sealed: Sealed, key: string): Promise<void> {
    const known = await this.log.deletions();
    const missing = (await this.read()).filter(({ n }) => n > known);
    const { files } = await this.log.state();
    if (files.length > 0 && missing.length > 0) {
      const bench = await Workbench.open(sealed.folder, () => sealed.clock.token(12));
      const ids = await userIds(bench, files).finally(() => bench.close());
      const idOf = new Map(ids.map((id) => [userHash(key, '', id).toString('base64url'), id]));
      const requests = missing.map(
        ({ at, sources, hashes }): Erasure => ({
          users: hashes.flatMap((hash) => idOf.get(hash) ?? []),
          sources,
          until: at,
        }),
      );
      await eraseUsers(
        sealed,
        requests.filter(({ users }) => users.length > 0),
      );
    }
    await this.log.deleted(missing.at(-1)?.n ?? known);
  }

  private async read(): Promise<readonly Note[]> {
    const text = await readFile(this.path, 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return '';
      throw error;
    });
    return text.split('\n').flatMap(noteOf);
  }
}

/** Nothing of a line that was cut off: then its deletion was not over. */
function noteOf(line: string): readonly Note[] {
  try {
    const note = JSON.parse(line) as Note | null;
    return note && Number.isInteger(note.n) && Array.isArray(note.hashes) ? [note] : [];
  } catch {
    return [];
  }
}
