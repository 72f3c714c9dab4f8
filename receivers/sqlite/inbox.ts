import type { GivenUpRequest, Inbox, KeptRequest, ReceiverStore, StoredRequest } from '../store.ts';
import type { SqliteFile } from './file.ts';

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

/** Requests whose turn it is. Uses indexes only, since many requests may be waiting for a user or a time. */
const FREE = `
  select * from request r
  where state = 'stored' and is_next = 1 and receiver = ?1
    and key not in (select value from json_each(?2))
    and not exists (select 1 from work where work.scope = r.scope and work.user = r.user)`;
const DUE = `
  with work as materialized (select scope, user from request where key in (select value from json_each(?2)))
  select * from (
    select * from (${FREE} and due = 0 order by seq limit ?3)
    union all
    select * from (${FREE} and due > 0 and due <= ?4 order by due limit ?3)
  ) order by seq limit ?3`;

/** The stored requests for `ack: 'stored'`: kept, tried or given up. */
export class KeptRequests implements Omit<Inbox, keyof ReceiverStore | 'own' | 'disown'> {
  readonly #file: SqliteFile;
  readonly #now: () => number;

  constructor(file: SqliteFile, now: () => number) {
    this.#file = file;
    this.#now = now;
  }

  keep(requests: readonly StoredRequest[]): readonly boolean[] {
    return this.#file.transaction(() => requests.map((request) => this.#keepOne(request)));
  }

  #keepOne({ key, body, url, secret, scope, user }: StoredRequest): boolean {
    const kept = this.#file.run(
      `insert into request (key, state, at, seq, body, url, secret, scope, user)
       values (?, 'stored', ?, (select coalesce(max(seq), 0) + 1 from request), ?, ?, ?, ?, ?)
       on conflict (key) do update set state = 'stored', at = excluded.at, seq = excluded.seq, body = excluded.body,
         tries = 0, crashes = 0, begun = 0, due = 0, reason = null
       where state = 'failed'`,
      ...[key, this.#now(), body, url, secret ?? null, scope, user ?? null],
    );
    return kept === 1;
  }

  due(limit: number, working: readonly string[], receiver: string): readonly KeptRequest[] {
    const rows = this.#file.rows<StoredRow>(DUE, receiver, JSON.stringify(working), limit, this.#now());
    return rows.map(requestOf);
  }

  tried(key: string): void {
    this.#file.run('update request set tries = tries + 1, begun = 1 where key = ?', key);
  }

  tryAgain(key: string, at: number): void {
    this.#file.run('update request set due = ?, begun = 0 where key = ?', at, key);
  }

  giveUp(key: string, reason: string): void {
    this.#file.run(
      "update request set state = 'failed', at = ?, begun = 0, reason = ? where key = ? and state = 'stored'",
      this.#now(),
      reason,
      key,
    );
  }

  givenUp(limit: number): readonly GivenUpRequest[] {
    return this.#file
      .rows<StoredRow>("select * from request where state = 'failed' order by seq limit ?", limit)
      .map((row) => ({ ...requestOf(row), reason: row.reason ?? '', at: row.at }));
  }

  retry(keys?: readonly string[]): number {
    return this.#file.run(
      `update request set state = 'stored', tries = 0, crashes = 0, due = 0, reason = null
       where state = 'failed' and (?1 is null or key in (select value from json_each(?1)))`,
      keys === undefined ? null : JSON.stringify(keys),
    );
  }
}

function requestOf({ key, body, url, secret, scope, user, tries, crashes }: StoredRow): KeptRequest {
  const request = { key, body: Buffer.from(body), url, scope, tries, crashes };
  return { ...request, secret: secret ?? undefined, user: user ?? undefined };
}
