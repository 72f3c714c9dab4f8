import type { Connection } from './connection.ts';

/** Message ids are remembered for at least this long, in milliseconds (field notes: 24 hours). */
const DEDUPE_WINDOW = 24 * 3_600_000;
/** Ids in a bucket: making one holds the store up for some 25 ms. */
const BUCKET_SIZE = 16_384;
/** Bits of a filter, and probes, for each id: a new one is looked for in vain in one bucket of 1,700. */
const BITS_PER_ID = 16;
const PROBES = 8;

interface Bucket {
  readonly id: number;
  readonly filter: Uint8Array;
}

/**
 * The message ids of the last 24 hours. Ids are random, so one index over all of them would write a page of the
 * database for each. Instead the newest are kept in memory and in an append-only log, and once there are enough they
 * are written as a bucket, in order, with a Bloom filter that tells in memory that an id is not there.
 */
export class SeenIds {
  private readonly db: Connection;
  private readonly bucketSize: number;
  /** Ids in the log; null when they must be read anew. */
  private recent: Set<string> | null = null;
  private buckets: Bucket[] = [];
  /** SQLite's count of what other processes have written. */
  private dataVersion = -1;
  private firstLogged = 0;
  private lastLogged = 0;
  private added: string[] = [];

  constructor(db: Connection, bucketSize = BUCKET_SIZE) {
    this.db = db;
    this.bucketSize = bucketSize;
  }

  /** Forgets what memory holds: a transaction was rolled back. */
  forget(): void {
    this.recent = null;
    this.buckets = [];
  }

  /** Catches up with other processes; must precede the first `add` of an operation. */
  begin(): void {
    this.added = [];
    const version = this.db.get<{ data_version: number }>('PRAGMA data_version')?.data_version ?? 0;
    if (this.recent !== null && version === this.dataVersion) return;
    this.dataVersion = version;
    this.loadBuckets();
    this.loadLog();
  }

  /** Notes an id; false when it was known. */
  add(source: number, messageId: string): boolean {
    const key = `${source}:${messageId}`;
    const recent = this.recent as Set<string>;
    if (recent.has(key) || this.isInBucket(key)) return false;
    recent.add(key);
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
    if (recent && recent.size >= this.bucketSize) this.makeBucket(now, [...recent]);
  }

  /** Forgets ids that are older than the window. */
  prune(now: number): void {
    const before = now - DEDUPE_WINDOW;
    const removed = this.db.run('DELETE FROM seen_log WHERE at < ?', before);
    const old = this.db.get<{ id: number }>('SELECT id FROM seen_bucket WHERE at < ? LIMIT 1', before);
    if (old) {
      this.db.run('DELETE FROM seen WHERE bucket = ?', old.id);
      this.db.run('DELETE FROM seen_bucket WHERE id = ?', old.id);
    }
    if (removed > 0 || old) this.forget();
  }

  private makeBucket(now: number, keys: string[]): void {
    const { db } = this;
    const filter = new Uint8Array(Math.ceil((keys.length * BITS_PER_ID) / 8));
    for (const key of keys) setBits(filter, key);
    const id = db.insert('INSERT INTO seen_bucket (at, filter) VALUES (?, ?)', now, filter);
    // In order, so that every page is written once and full.
    for (const key of keys.sort()) db.run('INSERT INTO seen VALUES (?, ?)', id, key);
    db.run('DELETE FROM seen_log');
    this.buckets.push({ id, filter });
    this.recent = new Set();
    this.firstLogged = 0;
  }

  private isInBucket(key: string): boolean {
    const [h1, h2] = hashes(key);
    return this.buckets.some(
      ({ id, filter }) =>
        hasBits(filter, h1, h2) &&
        this.db.get('SELECT 1 FROM seen WHERE bucket = ? AND key = ?', id, key) !== undefined,
    );
  }

  private loadBuckets(): void {
    const known = new Map(this.buckets.map((bucket) => [bucket.id, bucket]));
    this.buckets = this.db
      .all<{ id: number }>('SELECT id FROM seen_bucket ORDER BY id')
      .map(({ id }) => known.get(id) ?? this.loadBucket(id));
  }

  private loadBucket(id: number): Bucket {
    const row = this.db.get<{ filter: Uint8Array }>('SELECT filter FROM seen_bucket WHERE id = ?', id);
    return { id, filter: row?.filter ?? new Uint8Array() };
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

/** Two hashes (FNV-1a from two starts), of which the filter's probes are made. They are part of the file's format. */
function hashes(key: string): readonly [number, number] {
  let h1 = 0x811c9dc5;
  let h2 = 0x01000193;
  for (let index = 0; index < key.length; index += 1) {
    const code = key.charCodeAt(index);
    h1 = Math.imul(h1 ^ code, 0x01000193);
    h2 = Math.imul(h2 ^ code, 0x85ebca6b);
  }
  return [(h1 ^ (h1 >>> 15)) >>> 0, ((h2 ^ (h2 >>> 13)) | 1) >>> 0];
}

function setBits(filter: Uint8Array, key: string): void {
  const [h1, h2] = hashes(key);
  for (let probe = 0; probe < PROBES; probe += 1) {
    const bit = (h1 + probe * h2) % (filter.length * 8);
    filter[bit >>> 3] = (filter[bit >>> 3] as number) | (1 << (bit & 7));
  }
}

function hasBits(filter: Uint8Array, h1: number, h2: number): boolean {
  for (let probe = 0; probe < PROBES; probe += 1) {
    const bit = (h1 + probe * h2) % (filter.length * 8);
    if (((filter[bit >>> 3] as number) & (1 << (bit & 7))) === 0) return false;
  }
  return true;
}
