import { anonymousForm, type ErasedIds, hashedForms } from '../store/deleted-ids.ts';
import type { LogFiles } from '../store/events/files.ts';
import { userHash } from '../store/users.ts';
import type { Erasure } from './erasure.ts';

/** One deletion, by hashes of its ids. */
interface Note {
  readonly n: number;
  readonly at: number;
  readonly sources: readonly string[] | null;
  readonly hashes: readonly string[];
}

/** Records that the notes were applied to a restored database. */
interface Mark {
  readonly restored: string;
}

/** Deleted users, as keyed hashes, in a file next to the log: a restored backup lacks later deletions. */
export class NotesFile {
  private readonly files: LogFiles;

  constructor(files: LogFiles) {
    this.files = files;
  }

  async notes(): Promise<readonly Note[]> {
    return (await this.lines()).filter((line): line is Note => 'n' in line);
  }

  async isMarked(restored: string): Promise<boolean> {
    return (await this.lines()).some((line) => 'restored' in line && line.restored === restored);
  }

  /** Resolves once the lines are durable. */
  async append(lines: readonly (Note | Mark)[]): Promise<void> {
    // Begin a new line, in case the last one was cut off.
    await this.files.note(`\n${lines.map((line) => JSON.stringify(line)).join('\n')}\n`);
  }

  private async lines(): Promise<readonly (Note | Mark)[]> {
    return (await this.files.notes()).split('\n').flatMap(lineOf);
  }
}

export function notesOf(requests: readonly Erasure[], first: number, key: string, at: number): readonly Note[] {
  return requests.map(({ ids, sources }, index) => ({
    ...{ n: first + index, at, sources },
    hashes: hashedForms(ids).map((form) => hashOf(key, form)),
  }));
}

const hashOf = (key: string, form: string) => userHash(key, '', form).toString('base64url');

/** The deletions that notes stand for, of those of these ids. Events received after a deletion stay. */
export function erasuresOf(notes: readonly Note[], known: ErasedIds, key: string): readonly Erasure[] {
  const users = new Map(known.users.map((id) => [hashOf(key, id), id]));
  const anonymous = new Map(known.anonymous.map((id) => [hashOf(key, anonymousForm(id)), id]));
  const among = (ids: ReadonlyMap<string, string>, hashes: readonly string[]) =>
    hashes.flatMap((hash) => ids.get(hash) ?? []);
  return notes
    .map(({ at, sources, hashes }) => ({
      ids: { users: among(users, hashes), anonymous: among(anonymous, hashes) },
      ...{ sources, until: at },
    }))
    .filter(({ ids }) => ids.users.length + ids.anonymous.length > 0);
}

/** Parse a line. One that was cut off is skipped: its deletion had not finished. */
function lineOf(line: string): readonly (Note | Mark)[] {
  try {
    const read = JSON.parse(line) as Partial<Note & Mark> | null;
    if (typeof read?.restored === 'string') return [{ restored: read.restored }];
    return Number.isInteger(read?.n) && Array.isArray(read?.hashes) ? [read as Note] : [];
  } catch {
    return [];
  }
}
