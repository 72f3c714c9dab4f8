import { statSync } from 'node:fs';
import type { Connection } from './connection.ts';
import { storeError } from './connection.ts';

/** Files up to this size are checked when they are opened, in 0.04 s, or half a second on a cold disk. */
export const LOOK_LIMIT = 64 * 2 ** 20;
/** Larger files up to this size are checked in the background (0.6 s of CPU per GB), others by `rollcall doctor`. */
export const BACKGROUND_LIMIT = 4 * 2 ** 30;
/** Faults to list at most. */
const FAULTS = 5;

/** Return the damage that a check of bounded time finds; null if none. */
export function quickLook(db: Connection, path: string): string | null {
  try {
    if (path === ':memory:') return null;
    return isCutOff(db, path) ? 'its end was cut off' : statSync(path).size > LOOK_LIMIT ? null : faults(db, false);
  } catch (error) {
    const failure = storeError(error);
    // A passing failure, such as another process's lock, is not damage.
    return failure.code === 'store_damaged' ? (error as Error).message : null;
  }
}

/** Check all pages; `thorough` also compares each index with its table. */
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

/** SQLite rounds up and misses a cut in the last page. Pages only in the log are moved to the file first. */
function isCutOff(db: Connection, path: string): boolean {
  const pages = Number(db.get<{ page_count: number }>('PRAGMA page_count')?.page_count);
  const size = pages * Number(db.get<{ page_size: number }>('PRAGMA page_size')?.page_size);
  if (statSync(path).size >= size) return false;
  const [moved] = db.tuples<[busy: number, inLog: number, done: number]>('PRAGMA wal_checkpoint(PASSIVE)');
  const isMoved = moved !== undefined && moved[0] === 0 && moved[1] === moved[2];
  return isMoved && statSync(path).size < size;
}
