import { DatabaseSync } from 'node:sqlite';
import type { Inbox, StoredRequest } from './store.ts';

export interface SqliteStoreOptions {
  /** Milliseconds that handled requests are remembered (default one day; a sender repeats for hours). */
  keep?: number;
  /** Milliseconds after which another process takes over what one began and never ended (default one minute). */
  lease?: number;
  now?: () => number;
}

/** A store in a file, shared by the processes of one machine; see {@link sqliteStore}. */
export interface SqliteStore extends Inbox {
  close(): void;
}

const schema = `
  create table if not exists request (
    key text primary key,
    state text not null check (state in ('running', 'stored', 'done', 'failed')),
    at integer not null,
    body blob, url text, secret integer
  ) strict;
  create index if not exists request_at on request (state, at);
  create table if not exists sequence (name text primary key, value integer not null) strict;
`;

const pruneEvery = 1000;

/**
 * Remembers handled requests, and with `ack: 'stored'` the requests themselves, in a SQLite file, durably.
 * With `ack: 'stored'` one process must have the file to itself, because it takes up all that is pending.
 */
export function sqliteStore(path: string, options: SqliteStoreOptions = {}): SqliteStore {
  const { keep = 24 * 60 * 60 * 1000, lease = 60_000, now = Date.now } = options;
  // A wait for a lock stops the event loop, so it is short; then the answer is 503 and the sender comes again.
  const db = new DatabaseSync(path, { timeout: 200 });
  db.exec('pragma journal_mode = wal; pragma synchronous = full;');
  db.exec(schema);
  const insert = db.prepare(`
    insert into request (key, state, at, body, url, secret) values (?, ?, ?, ?, ?, ?)
    on conflict (key) do update set state = excluded.state, at = excluded.at, body = excluded.body
    where request.state = 'failed' or (request.state = 'running' and request.at <= ?)`);
  const stateOf = db.prepare('select state from request where key = ?');
  const settle = db.prepare("update request set state = ?, at = ?, body = iif(?1 = 'done', null, body) where key = ?");
  const remove = db.prepare('delete from request where key = ?');
  const prune = db.prepare("delete from request where state = 'done' and at < ?");
  const stored = db.prepare("select key, body, url, secret from request where state = 'stored' order by at");
  const raise = db.prepare(`
    insert into sequence (name, value) values (?, ?)
    on conflict (name) do update set value = excluded.value where excluded.value >= value`);
  let begun = 0;

  function begin(key: string, request?: StoredRequest): 'new' | 'running' | 'done' {
    begun += 1;
    if (begun % pruneEvery === 0) prune.run(now() - keep);
    const { body = null, url = null, secret = null } = request ?? {};
    const state = request === undefined ? 'running' : 'stored';
    if (insert.run(key, state, now(), body, url, secret ?? null, now() - lease).changes === 1) return 'new';
    return stateOf.get(key)?.['state'] === 'done' ? 'done' : 'running';
  }

  return {
    begin,
    done: (key) => void settle.run('done', now(), key),
    release: (key) => void remove.run(key),
    giveUp: (key) => void settle.run('failed', now(), key),
    advance: (name, sequence) => raise.run(name, sequence).changes === 1,
    pending: () =>
      stored.all().map((row) => ({
        key: row['key'] as string,
        body: Buffer.from(row['body'] as Uint8Array),
        url: row['url'] as string,
        secret: (row['secret'] as number | null) ?? undefined,
      })),
    close: () => db.close(),
  };
}
