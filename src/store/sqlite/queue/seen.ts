import type { Statements } from '../statements.ts';
import { BloomFilters, type Hashes, hashesOf } from './bloom-filters.ts';
import { isAmong, newKey, type SeenKey, SeenKeys, writeKey } from './seen-keys.ts';

/** Message ids are remembered for at least this long, in milliseconds (field notes: 24 hours). */
const DEDUPE_WINDOW = 24 * 3_600_000;
/** Ids in a bucket and in a part of one, which is a row. Writing a bucket blocks the store for some 10 ms. */
const BUCKET_SIZE = 16_384;
const PART_SIZE = 32;

/**
 * The message ids of the last 24 hours. Ids are random, so one index over all of them would write a page of the
 * database for each. Instead the newest are kept in memory and in an append-only log. Once there are enough, they are
 * written as a bucket, with a Bloom filter in memory that shows that an id is not there.
 */
export class SeenIds {
  private readonly db: Statements;
  private readonly bucketSize: number;
  /** Ids in the log; null if they must be read again. */
  private recent: SeenKeys | null = null;
  /** Filters of the buckets. Pruned buckets may still be among them, which only costs a lookup in vain. */
  private filters: BloomFilters;
  /** SQLite's counter of other processes' writes. */
  private dataVersion = -1;
  private firstLogged = 0;
  private lastLogged = 0;
  /** Number of ids in the log before the operation. */
  private before = 0;
  private readonly key = newKey();

  /** @param bucketSize - a power of two */
  constructor(db: Statements, bucketSize = BUCKET_SIZE) {
    this.db = db;
    this.bucketSize = bucketSize;
    this.filters = new BloomFilters(bucketSize);
  }

  /** Drop the cached state after a rollback. */
  forget(): void {
    this.recent = null;
    this.filters = new BloomFilters(this.bucketSize);
  }

  /** Catch up with other processes; must precede the first `add` of an operation. */
  begin(): void {
    this.refresh();
    this.before = this.recent?.size ?? 0;
  }

  private refresh(): void {
    const version = this.db.get<{ data_version: number }>('PRAGMA data_version')?.data_version ?? 0;
    if (this.recent !== null && version === this.dataVersion) return;
    this.dataVersion = version;
    this.loadFilters();
    this.loadLog();
  }

  /** Remember an id by its hash; return false if it was known. */
  add(source: string, messageId: string): boolean {
    const { key } = this;
    const recent = this.recent as SeenKeys;
    writeKey(key, source, messageId);
    if (recent.has(key) || this.isInBucket(key)) return false;
    recent.add(key);
    return true;
  }

  /** Take back what was added since `begin`. */
  undo(): void {
    this.recent?.truncate(this.before);
  }

  /** Write what was added since `begin`. */
  write(now: number): void {
    const { db, recent, before } = this;
    if (recent === null || recent.size === before) return;
    const added = recent.stored(placesFrom(before, recent.size), recent.size - before);
    this.lastLogged = db.insert('INSERT INTO seen_log (at, keys) VALUES (?, ?)', now, added);
    if (this.firstLogged === 0) this.firstLogged = this.lastLogged;
    if (recent.size >= this.bucketSize) this.makeBucket(now, recent);
  }

  /** Remove ids older than the window, at most one bucket per call; return true if a bucket was removed. */
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

  private makeBucket(now: number, keys: SeenKeys): void {
    const { db, filters } = this;
    const parts: number[][] = Array.from({ length: this.partCount }, () => []);
    const hashes: Hashes[] = [];
    for (let place = 0; place < keys.size; place += 1) {
      const pair = hashesOf(keys.at(place));
      hashes.push(pair);
      parts[this.partOf(pair)]?.push(place);
    }
    const filter = filters.make(hashes);
    const id = db.insert('INSERT INTO seen_bucket (at, filter) VALUES (?, ?)', now, filter);
    for (const [index, places] of parts.entries()) {
      if (places.length === 0) continue;
      db.run('INSERT INTO seen VALUES (?, ?)', this.rowOf(id, index), keys.stored(places, places.length));
    }
    db.run('DELETE FROM seen_log');
    filters.add(id, filter);
    this.recent = new SeenKeys(this.bucketSize);
    this.firstLogged = 0;
  }

  private isInBucket(key: SeenKey): boolean {
    const hashes = hashesOf(key);
    return this.filters.candidates(hashes).some((bucket) => {
      const row = this.rowOf(bucket, this.partOf(hashes));
      const part = this.db.get<{ keys: Uint8Array }>('SELECT keys FROM seen WHERE id = ?', row);
      return part !== undefined && isAmong(key, part.keys);
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
      this.recent = new SeenKeys(this.bucketSize);
      this.firstLogged = first;
      this.lastLogged = 0;
    }
    for (const { id, keys } of this.db.all<{ id: number; keys: Uint8Array }>(
      'SELECT id, keys FROM seen_log WHERE id > ? ORDER BY id',
      this.lastLogged,
    )) {
      this.recent.addStored(keys);
      this.lastLogged = id;
    }
  }
}

function* placesFrom(first: number, end: number): Generator<number> {
  for (let place = first; place < end; place += 1) yield place;
}
