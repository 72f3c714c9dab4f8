import { chmodSync } from 'node:fs';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { type Inbox, type KeptRequest, LeaseLost, type Opened, type Opening, type StoredRequest } from './store.ts';

export interface SqliteStoreOptions {
  /** Milliseconds that handled requests are remembered (default one day; a sender repeats for hours). */
  keep?: number;
  /** Milliseconds that a request is held without being renewed; then another process may begin it (default one minute). */
  lease?: number;
  now?: () => number;
}

/** A store in a file, shared by the processes of one machine; see {@link sqliteStore}. */
export interface SqliteStore extends Inbox {
  /**
   * Runs `work` in the transaction that marks the request as handled: both happen, once, or neither. For the handler that
   * has the last word on a message; whatever it does after that is not repeated. `work` can't wait for anything.
   *
   * @throws LeaseLost, and has nothing written, when another process has begun the same request or a change of the same name
   */
  transaction<T>(request: { readonly opening: Opening | undefined }, work: (db: DatabaseSync) => T): T;
  close(): void;
}

const SCHEMA = `
  create table if not exists request (
    key text primary key,
    state text not null check (state in ('running', 'stored', 'done', 'failed')),
    at integer not null,
    holder text, until integer,
    seq integer, body blob, url text, secret integer, scope text, user text,
    tries integer not null default 0, crashes integer not null default 0, begun integer not null default 0,
    due integer not null default 0, reason text
  ) strict;
  create index if not exists request_at on request (state, at);
  create index if not exists request_state on request (state, seq);
  create index if not exists request_seq on request (seq);
  create index if not exists request_user on request (state, user, seq);
  create table if not exists owner (only integer primary key check (only = 1), name text not null, until integer not null) strict;
  create table if not exists change (
    name text primary key,
    sequence integer not null,
    holder text, until integer
  ) strict;
`;

const PRUNE_EVERY = 1_000;
const PRUNE_LIMIT = 10_000;

interface RequestRow {
  readonly state: 'running' | 'stored' | 'done' | 'failed';
  readonly holder: string | null;
  readonly until: number | null;
}

interface StoredRow {
  readonly key: string;
  readonly at: number;
  readonly body: Uint8Array;
  readonly url: string;
  readonly secret: number | null;
  readonly scope: string;
  readonly user: string | null;
  readonly tries: number;
  readonly crashes: number;
  readonly reason: string | null;
}

interface ChangeRow {
  readonly sequence: number;
  readonly holder: string | null;
  readonly until: number | null;
}

/**
 * Remembers handled requests, and with `ack: 'stored'` the requests themselves, durably, in a SQLite file that only its
 * owner may read.
 */
export function sqliteStore(path: string, options: SqliteStoreOptions = {}): SqliteStore {
  const { keep = 24 * 60 * 60 * 1000, lease = 60_000, now = Date.now } = options;
  // A wait for a lock stops the event loop, so it is short; then the answer is 503 and the sender comes again.
  const db = new DatabaseSync(path, { timeout: 200 });
  db.exec('pragma journal_mode = wal; pragma synchronous = full;');
  db.exec(SCHEMA);
  // It holds what users did.
  if (path !== ':memory:') for (const suffix of ['', '-wal', '-shm']) restrict(path + suffix);
  const statements = new Map<string, StatementSync>();
  const prepared = (sql: string): StatementSync => {
    const statement = statements.get(sql) ?? db.prepare(sql);
    statements.set(sql, statement);
    return statement;
  };
  const run = (sql: string, ...values: (string | number | Buffer | null)[]) =>
    Number(prepared(sql).run(...values).changes);
  const requestRow = (key: string) =>
    prepared('select state, holder, until from request where key = ?').get(key) as RequestRow | undefined;
  const changeRow = (name: string) =>
    prepared('select sequence, holder, until from change where name = ?').get(name) as ChangeRow | undefined;
  let begun = 0;

  /** Takes the lock before it reads: what it decides on stays true until it has written. */
  function transaction<T>(work: () => T): T {
    db.exec('begin immediate');
    try {
      const result = work();
      db.exec('commit');
      return result;
    } catch (error) {
      if (db.isTransaction) db.exec('rollback');
      throw error;
    }
  }

  function isTaken(row: RequestRow | ChangeRow, holder: string): boolean {
    return row.holder !== null && row.holder !== holder && (row.until ?? 0) > now();
  }

  function obstacle({ key, change, holder }: Opening): Exclude<Opened, 'new'> | undefined {
    const request = key === undefined ? undefined : requestRow(key);
    if (request?.state === 'done') return 'done';
    if (request && isTaken(request, holder)) return 'running';
    const known = change === undefined ? undefined : changeRow(change.name);
    if (known && change && change.sequence < known.sequence) return 'stale';
    return known && isTaken(known, holder) ? 'busy' : undefined;
  }

  function hold({ key, change, holder }: Opening): void {
    const until = now() + lease;
    if (key !== undefined) {
      run(
        `insert into request (key, state, at, holder, until) values (?, 'running', ?, ?, ?)
         on conflict (key) do update set state = iif(state = 'stored', 'stored', 'running'), at = excluded.at,
           holder = excluded.holder, until = excluded.until`,
        key,
        now(),
        holder,
        until,
      );
    }
    if (change !== undefined) {
      run(
        `insert into change (name, sequence, holder, until) values (?, -1, ?, ?)
         on conflict (name) do update set holder = excluded.holder, until = excluded.until`,
        change.name,
        holder,
        until,
      );
    }
  }

  function isOurs({ key, change, holder }: Opening): boolean {
    return (
      (key === undefined || requestRow(key)?.holder === holder) &&
      (change === undefined || changeRow(change.name)?.holder === holder)
    );
  }

  function mark({ key, change }: Opening): void {
    if (change !== undefined) run('update change set sequence = ? where name = ?', change.sequence, change.name);
    if (key === undefined) return;
    run("update request set state = 'done', at = ?, body = null, begun = 0 where key = ?", now(), key);
  }

  /** Gives back what the holder has, as it was before. */
  function give({ key, change, holder }: Opening): void {
    if (key !== undefined) {
      run("delete from request where key = ? and holder = ? and state = 'running'", key, holder);
      run('update request set holder = null, until = null where key = ? and holder = ?', key, holder);
    }
    if (change !== undefined) {
      run('delete from change where name = ? and holder = ? and sequence = -1', change.name, holder);
      run('update change set holder = null, until = null where name = ? and holder = ?', change.name, holder);
    }
  }

  function keepOne({ key, body, url, secret, scope, user }: StoredRequest): boolean {
    const kept = run(
      `insert into request (key, state, at, seq, body, url, secret, scope, user)
       values (?, 'stored', ?, (select coalesce(max(seq), 0) + 1 from request), ?, ?, ?, ?, ?)
       on conflict (key) do update set state = 'stored', at = excluded.at, seq = excluded.seq, body = excluded.body,
         tries = 0, crashes = 0, begun = 0, due = 0, reason = null
       where state = 'failed'`,
      key,
      now(),
      body,
      url,
      secret ?? null,
      scope,
      user ?? null,
    );
    return kept === 1;
  }

  function prune(): void {
    const old = "select key from request where state in ('done', 'running') and at < ? limit ?";
    run(`delete from request where key in (${old})`, now() - Math.max(keep, lease), PRUNE_LIMIT);
  }

  return {
    lease,
    begin: (opening) =>
      transaction(() => {
        begun += 1;
        if (begun % PRUNE_EVERY === 0) prune();
        const found = obstacle(opening);
        if (found === undefined) hold(opening);
        return found ?? 'new';
      }),
    renew: (opening) =>
      transaction(() => {
        const ours = isOurs(opening);
        if (ours) hold(opening);
        return ours;
      }),
    done: (opening) =>
      transaction(() => {
        const ours = isOurs(opening);
        if (ours) mark(opening);
        give(opening);
        return ours;
      }),
    release: (opening) => transaction(() => give(opening)),
    transaction: ({ opening }, work) =>
      transaction(() => {
        if (opening !== undefined) {
          if (!isOurs(opening)) throw new LeaseLost();
          // Still held, so that `done` finds what it expects.
          mark(opening);
        }
        const result = work(db);
        if (result instanceof Promise) {
          result.catch(() => {});
          throw new TypeError('a transaction of SQLite waits for nothing: return no promise');
        }
        return result;
      }),
    keep: (requests) => transaction(() => requests.map(keepOne)),
    own: (owner) =>
      transaction(() => {
        const holder = prepared('select name, until from owner').get() as { name: string; until: number } | undefined;
        if (holder && holder.name !== owner && holder.until > now()) return false;
        if (holder?.name !== owner) run('update request set crashes = crashes + 1, begun = 0 where begun = 1');
        run('insert or replace into owner values (1, ?, ?)', owner, now() + lease);
        return true;
      }),
    disown: (owner) => void run('delete from owner where name = ?', owner),
    due: (limit, working) =>
      prepared(
        `select * from request r where state = 'stored' and due <= ?1
           and key not in (select value from json_each(?2))
           and (user is null or not exists (
             select 1 from request e where e.state = 'stored' and e.user = r.user and e.seq < r.seq))
         order by seq limit ?3`,
      )
        .all(now(), JSON.stringify(working), limit)
        .map((row) => kept(row as unknown as StoredRow)),
    tried: (key) => void run('update request set tries = tries + 1, begun = 1 where key = ?', key),
    tryAgain: (key, at) => void run('update request set due = ?, begun = 0 where key = ?', at, key),
    giveUp: (key, reason) =>
      void run(
        "update request set state = 'failed', at = ?, begun = 0, reason = ? where key = ? and state = 'stored'",
        now(),
        reason,
        key,
      ),
    givenUp: (limit) =>
      prepared("select * from request where state = 'failed' order by seq limit ?")
        .all(limit)
        .map((each) => {
          const row = each as unknown as StoredRow;
          return { ...kept(row), reason: row.reason ?? '', at: row.at };
        }),
    retry: (keys) =>
      run(
        `update request set state = 'stored', tries = 0, crashes = 0, due = 0, reason = null
         where state = 'failed' and (?1 is null or key in (select value from json_each(?1)))`,
        keys === undefined ? null : JSON.stringify(keys),
      ),
    close: () => db.close(),
  };
}

function kept({ key, body, url, secret, scope, user, tries, crashes }: StoredRow): KeptRequest {
  const request = { key, body: Buffer.from(body), url, scope, tries, crashes };
  return { ...request, secret: secret ?? undefined, user: user ?? undefined };
}

function restrict(file: string): void {
  try {
    chmodSync(file, 0o600);
  } catch {
    // There is no such file, or another user made it, whose rights count.
  }
}
