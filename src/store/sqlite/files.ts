import {
  accessSync,
  closeSync,
  constants,
  openSync,
  readFileSync,
  readlinkSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, resolve } from 'node:path';
import { RollcallError } from '../../kernel/errors.ts';

const MAGIC = 'SQLite format 3\0';
/** Offsets in the header: the page size, and the write version (1 without a write-ahead log, 2 with one). */
const PAGE_SIZE_AT = 16;
const WRITE_VERSION_AT = 18;
/** The log's header holds the page size too. */
const LOG_HEADER = 32;
const LOG_PAGE_SIZE_AT = 8;

const REPAIR =
  'Stop Rollcall, keep a copy of the file, and put the newest backup in its place (docs/deployment.md); rollcall doctor says what is damaged';

export function damaged(path: string, what: string): RollcallError {
  return new RollcallError('store_damaged', `The store ${path} is damaged: ${what}. ${REPAIR}.`);
}

/**
 * Follow symbolic links, also to a missing file. SQLite follows links before it names its side files, so all our side
 * files lie next to the real file, not next to the link.
 */
export function linked(path: string): string {
  try {
    const target = resolve(dirname(path), readlinkSync(path));
    return find(path) === null ? linked(target) : realpathSync(path);
  } catch {
    // Not a link, or unreadable: SQLite will say what is wrong.
    return path;
  }
}

/**
 * Check the store's files before SQLite opens them: it would take an empty file for a new database and apply any log
 * next to it.
 *
 * @throws RollcallError `store_missing`, `store_damaged`, `store_read_only`, `store_failed`
 */
export function checkFiles(path: string): void {
  if (path === ':memory:') return;
  checkFolder(dirname(path), path);
  const file = find(path);
  const logSize = find(`${path}-wal`)?.size ?? 0;
  const trace = file === null || file.size === 0 ? traceOf(path) : null;
  if (file === null) {
    if (trace !== null) throw missing(path, trace);
    return;
  }
  if (!file.isFile()) throw new RollcallError('store_failed', `The store ${path} is not a file. Correct \`store\`.`);
  checkAccess(path, 'The file');
  // SQLite first rolls back the transaction in which it was killed.
  if ((find(`${path}-journal`)?.size ?? 0) > 0) return;
  if (file.size === 0) {
    if (trace === movedTo(path)) throw missing(path, trace);
    if (trace !== null) throw damaged(path, `it is empty, but ${trace} shows that it was in use. ${BEGIN_ANEW}`);
    return;
  }
  const header = start(path, 100);
  if (header.toString('latin1', 0, MAGIC.length) !== MAGIC) {
    throw damaged(path, 'it is not a SQLite database, or its beginning was overwritten');
  }
  if (logSize >= LOG_HEADER) checkLog(path, header);
}

/**
 * Mark the file as used, by this store: its data was lost if it is empty or missing later.
 *
 * @throws RollcallError `store_missing` if the file of another store is in its place
 */
export function markFile(path: string, store: string): void {
  if (path === ':memory:') return;
  const marker = markerOf(path);
  const text = `The Rollcall store ${store} is in the file of the same name without -id. This file tells an empty one from a new one.\n`;
  try {
    writeFileSync(marker, text, { flag: 'wx' });
  } catch {
    // It exists, or there is no room for it now.
  }
  const known = markedStore(marker);
  if (known === null || known === store) return;
  throw new RollcallError(
    'store_missing',
    `The file ${path} is the store ${store}; ${marker} says that ${known} was there. Put the file of ${known} back, or remove ${marker} to go on with this one.`,
  );
}

function markedStore(marker: string): string | null {
  try {
    return /^The Rollcall store (\w+) is/.exec(readFileSync(marker, 'utf8'))?.[1] ?? null;
  } catch {
    return null;
  }
}

export const markerOf = (path: string) => `${path}-id`;

/** The name that `rollcall migrate` gives the file of a store that it has moved to Postgres. */
export const movedTo = (path: string) => `${path}.moved`;

/** Return a file that shows that the missing or empty store was in use; null if there is none. */
export function traceOf(path: string): string | null {
  const isLeft = (name: string) => name !== `${path}-wal` || (find(name)?.size ?? 0) > 0;
  return [`${path}-wal`, markerOf(path), movedTo(path)].find((name) => find(name) !== null && isLeft(name)) ?? null;
}

const BEGIN_ANEW = 'To begin with an empty store: rollcall start --new-store';

function missing(path: string, trace: string): RollcallError {
  const [what, wayOut] =
    trace === movedTo(path)
      ? ['was moved to Postgres', 'Set `store` to the postgres:// URL that it was moved to']
      : ['is gone', 'Put it back, or the newest backup (docs/deployment.md#a-lost-store), or correct `store`'];
  return new RollcallError(
    'store_missing',
    `The store ${path} ${what}: ${trace} is there, and the file is not. ${wayOut}. ${BEGIN_ANEW}.`,
  );
}

/**
 * Remove what is left of a lost store, and rename that of a moved one, so that the next start makes a new one.
 *
 * @throws RollcallError `bad_usage` if the store is there
 */
export function forgetLost(path: string): void {
  if ((find(path)?.size ?? 0) > 0)
    throw new RollcallError('bad_usage', `There is a store at ${path}. Start without --new-store, or move it away.`);
  for (const left of [markerOf(path), `${path}-wal`, `${path}-shm`, `${path}-journal`]) rmSync(left, { force: true });
  const moved = movedTo(path);
  if (find(moved) === null) return;
  let number = 1;
  while (find(`${moved}-${number}`) !== null) number += 1;
  renameSync(moved, `${moved}-${number}`);
}

function checkFolder(folder: string, path: string): void {
  const found = find(folder);
  if (found?.isDirectory()) {
    checkAccess(folder, `The folder of the store ${path},`);
    return;
  }
  const what = found ? 'is not a folder' : 'does not exist';
  throw new RollcallError(
    'store_failed',
    `The folder ${folder}, where the store ${path} would be, ${what}. Create it (or mount it), or correct \`store\`.`,
  );
}

/** Check write access to a file, or to its folder, in which SQLite creates files too. */
function checkAccess(path: string, what: string): void {
  try {
    accessSync(path, constants.R_OK | constants.W_OK);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why = code === 'EROFS' ? 'its disk is mounted read-only' : message;
    throw new RollcallError('store_read_only', `${what} ${path} can't be written: ${why}. Let this user write to it.`);
  }
}

/** Refuse a restored file next to another file's log: SQLite would write that log's pages into it. */
function checkLog(path: string, header: Buffer): void {
  const log = start(`${path}-wal`, LOG_HEADER);
  const pageSize = header.readUInt16BE(PAGE_SIZE_AT);
  const isForeign =
    header[WRITE_VERSION_AT] === 1 || log.readUInt32BE(LOG_PAGE_SIZE_AT) !== (pageSize === 1 ? 65_536 : pageSize);
  // A log that was never written is all zeros.
  if (!isForeign || log.every((byte) => byte === 0)) return;
  throw new RollcallError(
    'store_damaged',
    `The log ${path}-wal belongs to another file than ${path}, and would destroy it. If the file was put back from a backup, remove ${path}-wal and ${path}-shm, and start again.`,
  );
}

function start(path: string, length: number): Buffer {
  const file = openSync(path, 'r');
  try {
    const bytes = Buffer.alloc(length);
    readSync(file, bytes, 0, length, 0);
    return bytes;
  } finally {
    closeSync(file);
  }
}

function find(path: string): Stats | null {
  return statSync(path, { throwIfNoEntry: false }) ?? null;
}
