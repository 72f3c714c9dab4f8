import { lstatSync, readdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { join, matchesGlob, resolve } from 'node:path';

/** Files that a configuration may include, and bytes that each may have: enough for thousands of audiences. */
const MOST_FILES = 1_000;
const MOST_BYTES = 4 * 2 ** 20;

/** Drops a byte order mark. Rejects other encodings, which Windows may write: the text would be silently wrong. */
export const readText = (path: string) => new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(path));

/** Like `readText`, for a file that a configuration names: what is no file could block, or never end. */
export function readNamed(path: string): string {
  const file = statSync(path);
  if (!file.isFile()) throw new Error(file.isDirectory() ? 'is a folder' : 'is no regular file');
  if (file.size > MOST_BYTES) throw new Error(`is larger than ${MOST_BYTES / 2 ** 20} MiB`);
  return readText(path);
}

export function unreadable(error: unknown, hint = ''): string {
  const { message, code } = error as NodeJS.ErrnoException;
  if (code === undefined) return message;
  if (code === 'ERR_ENCODING_INVALID_ENCODED_DATA') return 'is not UTF-8: save it in that encoding';
  return `cannot be read: ${code === 'ENOENT' ? 'there is no such file' : message}${hint}`;
}

/**
 * Paths that match a pattern with `*` and `?`, relative to a folder and sorted. As in a shell, hidden files match only a
 * pattern that begins with a dot, too.
 *
 * @throws Error with the fault as its message
 */
export function matching(pattern: string, folder: string): readonly string[] {
  let found = [pattern.startsWith('/') ? '/' : ''];
  for (const part of pattern.split('/').filter((part) => part !== '')) {
    found = found.flatMap((parent) =>
      /[*?]/.test(part)
        ? entriesOf(resolve(folder, parent))
            .filter((name) => matchesGlob(name, part) && (!name.startsWith('.') || part.startsWith('.')))
            .map((name) => join(parent, name))
        : [join(parent, part)],
    );
    if (found.length > MOST_FILES) throw new Error(`matches more than ${MOST_FILES} files`);
  }
  // Includes links that lead nowhere, which are mistakes.
  return found.filter((path) => lstatSync(resolve(folder, path), { throwIfNoEntry: false })).toSorted();
}

/** Nothing for what is no folder: another part of the pattern may match. */
function entriesOf(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return [];
    throw new Error(unreadable(error));
  }
}

export function isSameFile(path: string, other: string): boolean {
  try {
    return realpathSync(path) === realpathSync(other);
  } catch {
    return false;
  }
}
