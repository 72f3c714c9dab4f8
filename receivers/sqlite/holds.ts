import type { DatabaseSync } from 'node:sqlite';
import {
  type Deleted,
  isChangeOf,
  isWithin,
  LeaseLost,
  type Opened,
  type Opening,
  type ReceiverStore,
} from '../store.ts';
import type { SqliteFile } from './file.ts';

const PRUNE_EVERY = 100;
const PRUNE_LIMIT = 10_000;

interface RequestRow {
  readonly state: 'running' | 'stored' | 'done' | 'failed';
  readonly holder: string | null;
  readonly until: number | null;
}

interface ChangeRow {
  readonly sequence: number;
  readonly holder: string | null;
  readonly until: number | null;
}

interface HoldTimes {
  readonly keep: number;
  readonly lease: number;
  readonly now: () => number;
}

/** Requests and changes that handlers hold or have finished. */
export class Holds implements ReceiverStore {
  readonly lease: number;
  readonly #file: SqliteFile;
  readonly #keep: number;
  readonly #now: () => number;
  #begun = 0;

  constructor(file: SqliteFile, { keep, lease, now }: HoldTimes) {
    this.#file = file;
    this.#keep = keep;
    this.lease = lease;
    this.#now = now;
  }

  begin(opening: Opening): Opened {
    return this.#file.transaction(() => {
      if (this.#begun % PRUNE_EVERY === 0) this.#prune();
      this.#begun += 1;
      const found = this.#obstacle(opening);
      if (found === undefined) this.#hold(opening);
      return found ?? 'new';
    });
  }

  renew(opening: Opening): boolean {
    return this.#file.transaction(() => {
      const ours = this.#isOurs(opening);
      if (ours) this.#hold(opening);
      return ours;
    });
  }

  done(opening: Opening): boolean {
    return this.#file.transaction(() => {
      const ours = this.#isOurs(opening);
      if (ours) this.#mark(opening);
      this.#give(opening);
      return ours;
    });
  }

  release(opening: Opening): void {
    this.#file.transaction(() => this.#give(opening));
  }

  /** @throws LeaseLost, with nothing written, when another process has begun the same */
  transaction<T>(opening: Opening | undefined, work: (db: DatabaseSync) => T): T {
    return this.#file.transaction(() => {
      if (opening !== undefined) {
        if (!this.#isOurs(opening)) throw new LeaseLost();
        // Still held, so that `done` finds what it expects.
        this.#mark(opening);
      }
      const result = work(this.#file.db);
      if (result instanceof Promise) {
        result.catch(() => {});
        throw new TypeError('a transaction of SQLite waits for nothing: return no promise');
      }
      return result;
    });
  }

  #request(key: string): RequestRow | undefined {
    return this.#file.row('select state, holder, until from request where key = ?', key);
  }

  #change(name: string): ChangeRow | undefined {
    return this.#file.row('select sequence, holder, until from change where name = ?', name);
  }

  #isTaken(row: RequestRow | ChangeRow, holder: string): boolean {
    return row.holder !== null && row.holder !== holder && (row.until ?? 0) > this.#now();
  }

  #obstacle({ key, change, holder }: Opening): Exclude<Opened, 'new'> | undefined {
    const request = key === undefined ? undefined : this.#request(key);
    if (request?.state === 'done') return 'done';
    if (request && this.#isTaken(request, holder)) return 'running';
    const known = change === undefined ? undefined : this.#change(change.name);
    if (known && change && change.sequence <= known.sequence) {
      return change.sequence < known.sequence ? 'stale' : 'done';
    }
    return known && this.#isTaken(known, holder) ? 'busy' : undefined;
  }

  #hold({ key, change, holder }: Opening): void {
    const until = this.#now() + this.lease;
    if (key !== undefined) {
      this.#file.run(
        `insert into request (key, state, at, holder, until) values (?, 'running', ?, ?, ?)
         on conflict (key) do update set state = iif(state = 'stored', 'stored', 'running'), at = excluded.at,
           holder = excluded.holder, until = excluded.until`,
        key,
        this.#now(),
        holder,
        until,
      );
    }
    if (change !== undefined) {
      this.#file.run(
        `insert into change (name, sequence, holder, until) values (?, -1, ?, ?)
         on conflict (name) do update set holder = excluded.holder, until = excluded.until`,
        change.name,
        holder,
        until,
      );
    }
  }

  #isOurs({ key, change, holder }: Opening): boolean {
    return (
      (key === undefined || this.#request(key)?.holder === holder) &&
      (change === undefined || this.#change(change.name)?.holder === holder)
    );
  }

  #mark({ key, change, deletes }: Opening): void {
    if (change !== undefined) {
      // A user who returns is no longer deleted.
      const sql = 'update change set sequence = ?, deleted_at = null where name = ?';
      this.#file.run(sql, change.sequence, change.name);
    }
    if (deletes !== undefined) this.#delete(deletes);
    if (key === undefined) return;
    this.#file.run("update request set state = 'done', at = ?, body = null, begun = 0 where key = ?", this.#now(), key);
  }

  /** Deletes the user's failed requests and marks the changes as deleted. The next clean-up of old rows removes those. */
  #delete(deleted: Deleted): void {
    const { scope, userId } = deleted;
    for (const { name } of this.#file.rows<{ name: string }>('select name from change where user = ?', userId)) {
      if (isChangeOf(name, deleted)) {
        this.#file.run('update change set deleted_at = ? where name = ?', this.#now(), name);
      }
    }
    const failed = "select key, scope from request where state = 'failed' and user = ?";
    for (const row of this.#file.rows<{ key: string; scope: string }>(failed, userId)) {
      if (isWithin(row.scope, scope)) this.#file.run('delete from request where key = ?', row.key);
    }
  }

  /** Releases what the holder has, restoring its former state. */
  #give({ key, change, holder }: Opening): void {
    if (key !== undefined) {
      this.#file.run("delete from request where key = ? and holder = ? and state = 'running'", key, holder);
      this.#file.run('update request set holder = null, until = null where key = ? and holder = ?', key, holder);
    }
    if (change !== undefined) {
      this.#file.run('delete from change where name = ? and holder = ? and sequence = -1', change.name, holder);
      this.#file.run(
        'update change set holder = null, until = null where name = ? and holder = ?',
        change.name,
        holder,
      );
    }
  }

  #prune(): void {
    const old = "select key from request where state in ('done', 'running') and at < ? limit ?";
    const before = this.#now() - Math.max(this.#keep, this.lease);
    this.#file.run(`delete from request where key in (${old})`, before, PRUNE_LIMIT);
    const deleted = 'select name from change where deleted_at < ? and (holder is null or until <= ?) limit ?';
    this.#file.run(`delete from change where name in (${deleted})`, before, this.#now(), PRUNE_LIMIT);
  }
}
