import { seenKey } from '../seen-key.ts';
import { BloomFilters, type Hashes, hashesOf } from './bloom-filters.ts';
import type { Statements } from './statements.ts';

/** Message ids are remembered for at least this long, in milliseconds (field notes: 24 hours). */
const DEDUPE_WINDOW = 24 * 3_600_000;
/** Ids in a bucket, and in a part of one, which is a row: writing a bucket holds the store up for some 10 ms. */
const BUCKET_SIZE = 16_384;
const PART_SIZE = 32;

/**
 * The message ids of the last 24 hours. Ids are random, so one index over all of them would write a page of the
 * database for each. Instead the newest are kept in memory and in an append-only log, and once there are enough they
 * are written as a bucket, with a Bloom filter that tells in memory that an id is not there.
 */
export class SeenIds {
  private readonly db: Statements;
  private readonly bucketSize: number;
  /** Ids in the log; null when they must be read anew. */
  private recent: Set<string> | null = null;
  /** Those of the buckets; what was pruned may still be among them, and is then looked for in vain. */
  private filters: BloomFilters;
  /** SQLite's count of what other processes have written. */
  private dataVersion = -1;
  private firstLogged = 0;
  private lastLogged = 0;
  private added: string[] = [];

  /** @param bucketSize - a power of two */
  constructor(db: Statements, bucketSize = BUCKET_SIZE) {
    this.db = db;
    this.bucketSize = bucketSize;
    this.filters = new BloomFilters(bucketSize);
  }

  /** Forgets what memory holds: a transaction was rolled back. */
  forget(): void {
    this.recent = null;
    this.filters = new BloomFilters(this.bucketSize);
  }

  /** Catches up with other processes; must precede the first `add` of an operation. */
  begin(): void {
    this.added = [];
    const version = this.db.get<{ data_version: number }>('PRAGMA data_version')?.data_version ?? 0;
    if (this.recent !== null && version === this.dataVersion) return;
    this.dataVersion = version;
    this.loadFilters();
    this.loadLog();
  }

  /** Notes an id, by its hash; false when it was known. */
  add(source: string, messageId: string): boolean {
    const key = seenKey({ source, messageId });
    const recent = this.recent as Set<string>;
    const count = recent.size;
    // One look at the set answers whether it was there, and has it there if not.
    if (recent.add(key).size === count) return false;
    if (this.isInBucket(key)) {
      recent.delete(key);
      return false;
    }
    this.added.push(key);
    return true;
  }

  /** Takes back what was added since `begin`. */
  undo(): void {
    for (const key of this.added) this.recent?.delete(key);
  }

  /** Writes what was added since `begin`. */
  write(now: number): void {
    if (this.added.length === 0) return;
    const { db, recent } = this;
    this.lastLogged = db.insert('INSERT INTO seen_log (at, keys) VALUES (?, ?)', now, JSON.stringify(this.added));
    if (this.firstLogged === 0) this.firstLogged = this.lastLogged;
    if (recent && recent.size >= this.bucketSize) this.makeBucket(now, recent);
  }

  /** Forgets ids that are older than the window, a bucket at a time; false once none are. */
  prune(now: number): boolean {
    const before = now - DEDUPE_WINDOW;
    const removed = this.db.run('DELETE FROM seen_log WHERE at < ?', before);
    const old = this.db.get<{ id: number }>('SELECT id FROM seen_bucket WHERE at < ? LIMIT 1', before);
    if (old) {
      this.db.run('DELETE FROM seen WHERE id >= ? AND id < ?', this.rowOf(old.id, 0), this.rowOf(old.id + 1, 0));
      this.db.run('DELETE FROM seen_bucket WHERE id = ?', old.id);
    }
    if (removed > 0 || old) this.recent = null;
    return old !== undefined;
  }

  private makeBucket(now: number, keys: ReadonlySet<string>): void {
    const { db, filters } = this;
    const parts: string[][] = Array.from({ length: this.partCount }, () => []);
    const hashes: Hashes[] = [];
    for (const key of keys) {
      const pair = hashesOf(key);
      hashes.push(pair);
      parts[this.partOf(pair)]?.push(key);
    }
    const filter = filters.make(hashes);
    const id = db.insert('INSERT INTO seen_bucket (at, filter) VALUES (?, ?)', now, filter);
    for (const [index, part] of parts.entries()) {
      if (part.length > 0) db.run('INSERT INTO seen VALUES (?, ?)', this.rowOf(id, index), JSON.stringify(part));
    }
    db.run('DELETE FROM seen_log');
    filters.add(id, filter);
    this.recent = new Set();
    this.firstLogged = 0;
  }

  private isInBucket(key: string): boolean {
    const hashes = hashesOf(key);
    return this.filters.candidates(hashes).some((bucket) => {
      const row = this.rowOf(bucket, this.partOf(hashes));
      const part = this.db.get<{ keys: string }>('SELECT keys FROM seen WHERE id = ?', row);
      return part !== undefined && (JSON.parse(part.keys) as string[]).includes(key);
    });
  }

  private get partCount(): number {
    return Math.max(1, this.bucketSize / PART_SIZE);
  }

  private partOf([hash]: Hashes): number {
    return Math.floor((hash / 2 ** 32) * this.partCount);
  }

  private rowOf(bucket: number, part: number): number {
    return bucket * this.partCount + part;
  }

  private loadFilters(): void {
    const first = this.db.get<{ id: number | null }>('SELECT min(id) AS id FROM seen_bucket')?.id;
    this.filters.removeBefore(first ?? Number.POSITIVE_INFINITY);
    for (;;) {
      const rows = this.db.all<{ id: number; filter: Uint8Array }>(
        'SELECT id, filter FROM seen_bucket WHERE id > ? ORDER BY id LIMIT 32',
        this.filters.lastId,
      );
      if (rows.length === 0) break;
      for (const { id, filter } of rows) this.filters.add(id, filter);
    }
  }

  private loadLog(): void {
    const first = this.db.get<{ id: number | null }>('SELECT min(id) AS id FROM seen_log')?.id ?? 0;
    // Another process has made a bucket of the log, or has pruned it.
    if (this.recent === null || first !== this.firstLogged) {
      this.recent = new Set();
      this.firstLogged = first;
      this.lastLogged = 0;
    }
    for (const { id, keys } of this.db.all<{ id: number; keys: string }>(
      'SELECT id, keys FROM seen_log WHERE id > ? ORDER BY id',
      this.lastLogged,
    )) {
      for (const key of JSON.parse(keys) as string[]) this.recent.add(key);
      this.lastLogged = id;
    }
  }
}
