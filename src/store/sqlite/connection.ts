import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { RollcallError } from '../../kernel/errors.ts';
import { damaged } from './files.ts';
import { Holders } from './holder.ts';
import { SeenIds } from './queue/seen.ts';
import type { SqliteRow, Statements, Tuple } from './statements.ts';

/** How long a statement may wait for another process's write lock, in milliseconds; it waits in the store's own thread. */
const LOCK_WAIT = 5_000;

/**
 * Files up to this size are rewritten once users are deleted, which takes a second or two. In larger ones what is deleted
 * is overwritten in its place, too, but SQLite may have left a copy of a row in the unused part of a page.
 */
const VACUUM_LIMIT = 256 * 1024 * 1024;
const PAGE_SIZE = 8_192;
/** Size of the log, in bytes, at which it is written into the database. */
export const CHECKPOINT_AFTER = 2_000 * PAGE_SIZE;

/** One open database file with its prepared statements and interned names. Lives in the store's thread. */
export class Connection implements Statements {
  readonly holders = new Holders();
  readonly seen = new SeenIds(this);
  /** Whether a notice of a deletion was settled: the log still holds the user's id. */
  holdsTraces = false;
  private readonly database: DatabaseSync;
  private readonly statements = new Map<string, StatementSync>();
  private readonly tupleStatements = new Map<string, StatementSync>();
  private readonly idOfName = new Map<string, number>();
  private readonly nameOfId = new Map<number, string>();
  /** Whether commits are synced to disk before they return. */
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
    // The system has the pages in its own cache: four times as much took 50 MB more, and not a hundredth of the CPU off.
    this.exec('PRAGMA cache_size = -8192');
    this.checkpointAfter(CHECKPOINT_AFTER);
    this.exec('PRAGMA journal_size_limit = 67108864');
    // Deleted rows are overwritten: a deletion request must leave nothing of its users in the file.
    this.exec('PRAGMA secure_delete = ON');
    // Statement journals would else go to files in the system's temporary folder.
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
   * Runs `work` in one transaction that holds the write lock from its start.
   *
   * @param isSynced - whether it must outlive a loss of power; if not, it may be undone by one, with nothing that was before it
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

  /** Undoes what `work` wrote when it throws, and nothing else of the transaction. */
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

  /** The number that stands for a string in the rows. */
  nameId(value: string): number {
    let id = this.idOfName.get(value);
    if (id === undefined) {
      this.run('INSERT OR IGNORE INTO name (value) VALUES (?)', value);
      id = this.get<{ id: number }>('SELECT id FROM name WHERE value = ?', value)?.id as number;
      this.rememberName(id, value);
    }
    return id;
  }

  /** As `nameId`, but null for a string that no row can hold. */
  knownNameId(value: string): number | null {
    const row = this.get<{ id: number }>('SELECT id FROM name WHERE value = ?', value);
    return row?.id ?? null;
  }

  /** Empty for one that was dropped. */
  name(id: number): string {
    const known = this.nameOfId.get(id);
    if (known !== undefined) return known;
    const value = this.get<{ value: string }>('SELECT value FROM name WHERE id = ?', id)?.value;
    if (value !== undefined) this.rememberName(id, value);
    return value ?? '';
  }

  /** Forgets names that no row needs any more. */
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
   * Removes what deleted rows left in the log and between the rows of pages.
   *
   * @throws RollcallError `store_busy` while another process reads or writes
   */
  scrub(): void {
    if (!this.truncateLog()) throw new RollcallError('store_busy', 'Another process uses the database.');
    const { bytes = 0 } =
      this.get<{ bytes: number }>('SELECT page_count * page_size AS bytes FROM pragma_page_count, pragma_page_size') ??
      {};
    if (bytes > VACUUM_LIMIT) return;
    this.exec('VACUUM');
    this.seen.forget();
    if (!this.truncateLog()) throw new RollcallError('store_busy', 'Another process uses the database.');
    this.holdsTraces = false;
  }

  /** Empties the log, as soon as nobody reads it, if something was deleted whose traces in it must not stay. */
  tidy(): void {
    if (this.holdsTraces) this.holdsTraces = !this.checkpoint();
  }

  /** Bytes of pages within the file that hold nothing. */
  freeBytes(): number {
    const pages = this.database.prepare('PRAGMA freelist_count').get()?.['freelist_count'];
    return Number(pages) * PAGE_SIZE;
  }

  /** Writes the log into the database, and gives its space back, unless somebody is reading; says whether it did. */
  checkpoint(): boolean {
    try {
      this.exec('PRAGMA busy_timeout = 0');
      return this.truncateLog();
    } catch {
      // What was committed is on disk; it is tried again the next time.
      return false;
    } finally {
      this.exec(`PRAGMA busy_timeout = ${LOCK_WAIT}`);
    }
  }

  /** FULL: in WAL mode each commit is synced to disk before it returns. NORMAL: with the next one that is, or with the log. */
  private syncCommits(isSynced: boolean): void {
    if (isSynced === this.isSynced) return;
    this.exec(`PRAGMA synchronous = ${isSynced ? 'FULL' : 'NORMAL'}`);
    this.isSynced = isSynced;
  }

  /** After how many bytes of the log that is done by itself. */
  checkpointAfter(bytes: number): void {
    this.exec(`PRAGMA wal_autocheckpoint = ${Math.max(16, Math.floor(bytes / PAGE_SIZE))}`);
  }

  close(): void {
    this.database.close();
  }

  /** Writes the log's pages into the file and empties it; false while another process keeps it from that. */
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
    // Runs and paused endpoints come and go; beyond this many names starting afresh costs less than an LRU.
    if (this.idOfName.size > 10_000) this.forgetNames();
    this.idOfName.set(value, id);
    this.nameOfId.set(id, value);
  }

  /** A name made in a transaction that is rolled back does not exist. */
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
 * The error that a failure of SQLite becomes.
 *
 * @param path - the file that people should look at
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
