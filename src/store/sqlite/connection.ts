import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { RollcallError } from '../../kernel/errors.ts';
import { damaged } from './files.ts';
import { Holders } from './holder.ts';
import { SeenIds } from './queue/seen.ts';
import type { SqliteRow, Statements, Tuple } from './statements.ts';

/** The longest wait of a statement for another process's write lock, in milliseconds. Only the store's thread waits. */
const LOCK_WAIT = 5_000;

/**
 * Files up to this size are rewritten after users are deleted, which takes a second or two. In larger files deleted
 * data is overwritten in place, but SQLite may have left a copy of a row in the unused part of a page.
 */
const VACUUM_LIMIT = 256 * 1024 * 1024;
/** Files up to this size are rewritten after notices too, in 30 ms. */
const REWRITE_LIMIT = 8 * 1024 * 1024;
const PAGE_SIZE = 8_192;
/** Size of the write-ahead log, in bytes, at which it is checkpointed. */
export const CHECKPOINT_AFTER = 2_000 * PAGE_SIZE;

/** An open database file with its prepared statements and interned names. It lives in the store's thread. */
export class Connection implements Statements {
  readonly holders = new Holders();
  readonly seen = new SeenIds(this);
  /** True after a deletion notice was settled: the write-ahead log still holds the user's id. */
  holdsTraces = false;
  private readonly database: DatabaseSync;
  private readonly statements = new Map<string, StatementSync>();
  private readonly tupleStatements = new Map<string, StatementSync>();
  private readonly idOfName = new Map<string, number>();
  private readonly nameOfId = new Map<number, string>();
  /** True while commits are synced to disk before they return. */
  private isSynced = true;

  constructor(path: string) {
    this.database = new DatabaseSync(path, { timeout: LOCK_WAIT });
    try {
      this.configure();
    } catch (error) {
      this.close();
      throw error;
    }
  }

  private configure(): void {
    // Rows carry their bodies; larger pages take a tenth of the CPU off.
    this.exec(`PRAGMA page_size = ${PAGE_SIZE}`);
    this.exec('PRAGMA journal_mode = WAL');
    this.exec('PRAGMA synchronous = FULL');
    // The system caches the pages too: a cache four times as large took 50 MB more and saved less than 1 % of the CPU.
    this.exec('PRAGMA cache_size = -8192');
    this.checkpointAfter(CHECKPOINT_AFTER);
    this.exec('PRAGMA journal_size_limit = 67108864');
    // Overwrite deleted rows: a deletion request must leave nothing of its users in the file.
    this.exec('PRAGMA secure_delete = ON');
    // Otherwise statement journals go to files in the system's temporary folder.
    this.exec('PRAGMA temp_store = MEMORY');
  }

  exec(sql: string): void {
    this.database.exec(sql);
  }

  run(sql: string, ...values: SQLInputValue[]): number {
    return Number(this.statement(sql).run(...values).changes);
  }

  insert(sql: string, ...values: SQLInputValue[]): number {
    return Number(this.statement(sql).run(...values).lastInsertRowid);
  }

  get<T extends SqliteRow>(sql: string, ...values: SQLInputValue[]): T | undefined {
    return this.statement(sql).get(...values) as T | undefined;
  }

  all<T extends SqliteRow>(sql: string, ...values: SQLInputValue[]): T[] {
    return this.statement(sql).all(...values) as T[];
  }

  tuples<T extends Tuple>(sql: string, ...values: SQLInputValue[]): T[] {
    let statement = this.tupleStatements.get(sql);
    if (!statement) {
      statement = this.database.prepare(sql);
      statement.setReturnArrays(true);
      this.tupleStatements.set(sql, statement);
    }
    return statement.all(...values) as unknown as T[];
  }

  /**
   * Run `work` in a transaction that holds the write lock from its start.
   *
   * @param isSynced - false if a power loss may undo the transaction, though never one before it
   */
  async transaction<T>(work: () => T | Promise<T>, isSynced = true): Promise<T> {
    this.syncCommits(isSynced);
    this.run('BEGIN IMMEDIATE');
    try {
      const result = await work();
      this.run('COMMIT');
      return result;
    } catch (error) {
      this.forgetNames();
      this.seen.forget();
      if (this.database.isTransaction) this.run('ROLLBACK');
      throw error;
    }
  }

  /** Run `work`; if it throws, undo its writes and nothing else of the transaction. */
  async savepoint<T>(work: () => T | Promise<T>): Promise<T> {
    this.run('SAVEPOINT operation');
    try {
      const result = await work();
      this.run('RELEASE operation');
      return result;
    } catch (error) {
      if (this.database.isTransaction) {
        this.run('ROLLBACK TO operation');
        this.run('RELEASE operation');
      }
      this.forgetNames();
      throw error;
    }
  }

  /** Return the number that stands for a string in the rows. */
  nameId(value: string): number {
    let id = this.idOfName.get(value);
    if (id === undefined) {
      this.run('INSERT OR IGNORE INTO name (value) VALUES (?)', value);
      id = this.get<{ id: number }>('SELECT id FROM name WHERE value = ?', value)?.id as number;
      this.rememberName(id, value);
    }
    return id;
  }

  /** Like `nameId`, but null for a string that no row can hold. */
  knownNameId(value: string): number | null {
    const row = this.get<{ id: number }>('SELECT id FROM name WHERE value = ?', value);
    return row?.id ?? null;
  }

  /** Return the string of a number; empty if it was dropped. */
  name(id: number): string {
    const known = this.nameOfId.get(id);
    if (known !== undefined) return known;
    const value = this.get<{ value: string }>('SELECT value FROM name WHERE id = ?', id)?.value;
    if (value !== undefined) this.rememberName(id, value);
    return value ?? '';
  }

  /** Delete names that no row needs any more. */
  dropNames(names: readonly string[]): void {
    if (names.length === 0) return;
    this.run('DELETE FROM name WHERE value IN (SELECT value FROM json_each(?))', JSON.stringify(names));
    this.forgetNames();
  }

  meta(key: string): string | null {
    return this.get<{ value: string }>('SELECT value FROM meta WHERE key = ?', key)?.value ?? null;
  }

  setMeta(key: string, value: string): void {
    this.run('INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value', key, value);
  }

  /**
   * Remove traces of deleted rows from the write-ahead log and the unused parts of pages.
   *
   * @throws RollcallError `store_busy` while another process reads or writes
   */
  scrub(): void {
    if (!this.truncateLog()) throw new RollcallError('store_busy', 'Another process uses the database.');
    if (!this.rewrite(VACUUM_LIMIT)) return;
    if (!this.truncateLog()) throw new RollcallError('store_busy', 'Another process uses the database.');
    this.holdsTraces = false;
  }

  /** Remove traces of delivered notices once nobody reads: from the write-ahead log, and from the pages of a small file. */
  tidy(): void {
    if (!this.holdsTraces || !this.checkpoint()) return;
    try {
      this.rewrite(REWRITE_LIMIT);
    } catch {
      // The next deletion request rewrites it.
    }
    this.holdsTraces = !this.checkpoint();
  }

  /** Rewrite a file that is not larger: its pages may have copies of rows that were moved and deleted. */
  private rewrite(limit: number): boolean {
    const { bytes = 0 } =
      this.get<{ bytes: number }>('SELECT page_count * page_size AS bytes FROM pragma_page_count, pragma_page_size') ??
      {};
    if (bytes > limit) return false;
    this.exec('VACUUM');
    this.seen.forget();
    return true;
  }

  /** Bytes of the file's free pages. */
  freeBytes(): number {
    const pages = this.database.prepare('PRAGMA freelist_count').get()?.['freelist_count'];
    return Number(pages) * PAGE_SIZE;
  }

  /** Checkpoint and truncate the write-ahead log. Return false if a reader prevents it. */
  checkpoint(): boolean {
    try {
      this.exec('PRAGMA busy_timeout = 0');
      return this.truncateLog();
    } catch {
      // The commits are on disk. The next checkpoint tries again.
      return false;
    } finally {
      this.exec(`PRAGMA busy_timeout = ${LOCK_WAIT}`);
    }
  }

  /** FULL syncs each commit to disk before it returns. NORMAL leaves it to the next full commit or checkpoint. */
  private syncCommits(isSynced: boolean): void {
    if (isSynced === this.isSynced) return;
    this.exec(`PRAGMA synchronous = ${isSynced ? 'FULL' : 'NORMAL'}`);
    this.isSynced = isSynced;
  }

  checkpointAfter(bytes: number): void {
    this.exec(`PRAGMA wal_autocheckpoint = ${Math.max(16, Math.floor(bytes / PAGE_SIZE))}`);
  }

  close(): void {
    this.database.close();
  }

  /** Checkpoint and truncate the log; return false if another process prevents it. */
  private truncateLog(): boolean {
    return this.get<{ busy: number }>('PRAGMA wal_checkpoint(TRUNCATE)')?.busy === 0;
  }

  private statement(sql: string): StatementSync {
    let statement = this.statements.get(sql);
    if (!statement) {
      statement = this.database.prepare(sql);
      this.statements.set(sql, statement);
    }
    return statement;
  }

  private rememberName(id: number, value: string): void {
    // Runs and paused endpoints come and go. Clearing the maps beyond this many names costs less than an LRU.
    if (this.idOfName.size > 10_000) this.forgetNames();
    this.idOfName.set(value, id);
    this.nameOfId.set(id, value);
  }

  /** Drop cached names: those of a transaction that was rolled back do not exist. */
  private forgetNames(): void {
    this.idOfName.clear();
    this.nameOfId.clear();
  }
}

const SQLITE_PERM = 3;
const SQLITE_BUSY = 5;
const SQLITE_LOCKED = 6;
const SQLITE_READONLY = 8;
const SQLITE_CORRUPT = 11;
const SQLITE_FULL = 13;
const SQLITE_NOTADB = 26;
const SQLITE_IOERR_CORRUPTFS = 8458;

/**
 * Convert a failure of SQLite to a coded error.
 *
 * @param path - the file to name in the message
 */
export function storeError(error: unknown, path = 'the database'): RollcallError {
  if (error instanceof RollcallError) return error;
  const { errcode, message } = error as { errcode?: number; message?: string };
  const primary = errcode === undefined ? undefined : errcode & 0xff;
  if (primary === SQLITE_CORRUPT || primary === SQLITE_NOTADB || errcode === SQLITE_IOERR_CORRUPTFS) {
    return damaged(path, `${message}`);
  }
  if (primary === SQLITE_READONLY || primary === SQLITE_PERM) {
    return new RollcallError(
      'store_read_only',
      `The store ${path} can't be written: ${message}. Let this user write to the file and its folder.`,
    );
  }
  if (primary === SQLITE_FULL) {
    return new RollcallError(
      'store_full',
      `The disk or the database is full: ${message}. Free space; nothing was lost.`,
    );
  }
  if (primary === SQLITE_BUSY || primary === SQLITE_LOCKED) {
    return new RollcallError('store_busy', `Another process holds the database's lock: ${message}.`);
  }
  return new RollcallError('store_failed', `The store ${path} failed: ${message ?? String(error)}.`);
}
