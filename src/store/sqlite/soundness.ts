import { statSync } from 'node:fs';
import type { Connection } from './connection.ts';
import { storeError } from './connection.ts';

/** Files up to this size are looked through before anything is done with them: 0.04 s, of a cold disk half a second. */
export const LOOK_LIMIT = 64 * 2 ** 20;
/** Larger ones are looked through in the background, up to this size: some 0.6 s of one CPU for each GB. Beyond it only `rollcall doctor` does. */
export const BACKGROUND_LIMIT = 4 * 2 ** 30;
/** So many faults say enough. */
const FAULTS = 5;

/** The damage of a database, as far as a look of bounded time finds any; null if there is none. */
export function quickLook(db: Connection, path: string): string | null {
  try {
    if (path === ':memory:') return null;
    return isCutOff(db, path) ? 'its end was cut off' : statSync(path).size > LOOK_LIMIT ? null : faults(db, false);
  } catch (error) {
    const failure = storeError(error);
    // A passing failure, such as another process's lock, is no damage.
    return failure.code === 'store_damaged' ? (error as Error).message : null;
  }
}

/** Looks through all pages; `thorough` also compares each index with its table. */
export function faults(
  db: { all(sql: string): Readonly<Record<string, unknown>>[] },
  thorough: boolean,
): string | null {
  const check = thorough ? 'integrity_check' : 'quick_check';
  const rows = db.all(`PRAGMA ${check}(${FAULTS})`);
  const found = rows.flatMap((row) => Object.values(row).map(String)).filter((text) => text !== 'ok');
  return found.length === 0
    ? null
    : found
        .join('; ')
        .replaceAll(/\s*\n\s*/g, '; ')
        .slice(0, 500);
}

/** SQLite rounds up: it does not miss the end of the last page. What is in the log only is moved to the file first. */
function isCutOff(db: Connection, path: string): boolean {
  const pages = Number(db.get<{ page_count: number }>('PRAGMA page_count')?.page_count);
  const size = pages * Number(db.get<{ page_size: number }>('PRAGMA page_size')?.page_size);
  if (statSync(path).size >= size) return false;
  const [moved] = db.tuples<[busy: number, inLog: number, done: number]>('PRAGMA wal_checkpoint(PASSIVE)');
  const isMoved = moved !== undefined && moved[0] === 0 && moved[1] === moved[2];
  return isMoved && statSync(path).size < size;
}
