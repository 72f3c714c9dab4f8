import {
  accessSync,
  closeSync,
  constants,
  openSync,
  readlinkSync,
  readSync,
  realpathSync,
  type Stats,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, resolve } from 'node:path';
import { RollcallError } from '../../kernel/errors.ts';

const MAGIC = 'SQLite format 3\0';
/** In the header: the size of pages, and whether a log belongs to the file (1 no, 2 yes). */
const PAGE_SIZE_AT = 16;
const WRITE_VERSION_AT = 18;
/** The log's header has the size of pages too. */
const LOG_HEADER = 32;
const LOG_PAGE_SIZE_AT = 8;

/** The remedy for a damaged file. */
const REPAIR =
  'Stop Rollcall, keep a copy of the file, and put the newest backup in its place (docs/deployment.md); rollcall doctor says what is damaged';

export function damaged(path: string, what: string): RollcallError {
  return new RollcallError('store_damaged', `The store ${path} is damaged: ${what}. ${REPAIR}.`);
}

/**
 * The file that a link leads to, also where that is gone: SQLite follows links before it names the files beside a database, so all
 * that is kept there lies beside the file, and not beside the link.
 */
export function linked(path: string): string {
  try {
    const target = resolve(dirname(path), readlinkSync(path));
    return find(path) === null ? linked(target) : realpathSync(path);
  } catch {
    // It is no link, or nobody can tell: SQLite says what is wrong with it.
    return path;
  }
}

/**
 * Looks at the store's files before SQLite does, which takes an empty file for a new database and applies any log that
 * lies beside one.
 *
 * @throws RollcallError `store_damaged`, `store_read_only`, `store_failed`
 */
export function checkFiles(path: string): void {
  if (path === ':memory:') return;
  checkFolder(dirname(path), path);
  const file = find(path);
  const logSize = find(`${path}-wal`)?.size ?? 0;
  if (file === null) {
    if (logSize > 0) throw damaged(path, `it is gone, while its log ${path}-wal is there. ${beginAnew(path)}`);
    return;
  }
  if (!file.isFile()) throw new RollcallError('store_failed', `The store ${path} is not a file. Correct \`store\`.`);
  checkAccess(path, 'The file');
  // SQLite first undoes the transaction in which it was killed.
  if ((find(`${path}-journal`)?.size ?? 0) > 0) return;
  if (file.size === 0) {
    const had = logSize > 0 ? `its log ${path}-wal is not` : `${markerOf(path)} says that it was in use`;
    if (logSize > 0 || find(markerOf(path)) !== null)
      throw damaged(path, `it is empty, but ${had}. ${beginAnew(path)}`);
    return;
  }
  const header = start(path, 100);
  if (header.toString('latin1', 0, MAGIC.length) !== MAGIC) {
    throw damaged(path, 'it is not a SQLite database, or its beginning was overwritten');
  }
  if (logSize >= LOG_HEADER) checkLog(path, header);
}

/** Says that the file is in use: one that is empty later has lost what it held. */
export function markFile(path: string, store: string): void {
  if (path === ':memory:') return;
  const text = `The Rollcall store ${store} is in the file of the same name without -id. This file tells an empty one from a new one.\n`;
  try {
    writeFileSync(markerOf(path), text, { flag: 'wx' });
  } catch {
    // It is there, or there is no room for it now.
  }
}

export const markerOf = (path: string) => `${path}-id`;

const beginAnew = (path: string) =>
  `To begin with an empty store, remove what is left of the old one (${path}, ${path}-wal, ${path}-shm, ${markerOf(path)})`;

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

/** SQLite writes beside the file too. */
function checkAccess(path: string, what: string): void {
  try {
    accessSync(path, constants.R_OK | constants.W_OK);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why = code === 'EROFS' ? 'its disk is mounted read-only' : message;
    throw new RollcallError('store_read_only', `${what} ${path} can't be written: ${why}. Let this user write to it.`);
  }
}

/** A file that was put back beside the log of another: SQLite would write that log's pages into it. */
function checkLog(path: string, header: Buffer): void {
  const log = start(`${path}-wal`, LOG_HEADER);
  const pageSize = header.readUInt16BE(PAGE_SIZE_AT);
  const isForeign =
    header[WRITE_VERSION_AT] === 1 || log.readUInt32BE(LOG_PAGE_SIZE_AT) !== (pageSize === 1 ? 65_536 : pageSize);
  // One that was never written is all zeros.
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
