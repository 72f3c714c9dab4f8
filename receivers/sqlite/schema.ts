import type { DatabaseSync } from 'node:sqlite';

const TABLES = `
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
  create table if not exists change (
    name text primary key,
    sequence integer not null,
    holder text, until integer
  ) strict;
`;

/** What a file lacks that an older version of the kit has made, each with the last thing that it makes. */
const STEPS: readonly { readonly makes: string; readonly sql: string }[] = [
  {
    // A scope is the receiver's name, '|' and the sender's, which is hexadecimal.
    makes: 'request_receiver',
    sql: `
      alter table request add column receiver text
        generated always as (substr(scope, 1, length(rtrim(scope, replace(scope, '|', ''))) - 1)) virtual;
      create table if not exists owner (name text not null, until integer not null, locked integer not null);
      alter table owner rename to only_owner;
      create table owner (
        receiver text primary key, name text not null, until integer not null, locked integer not null
      ) strict;
      insert into owner select '', name, until, locked from only_owner;
      drop table only_owner;
      create index request_receiver on request (receiver, seq) where state = 'stored';
    `,
  },
];

/** Makes the tables, or what is missing of them. The file's `user_version` may be the app's, so that none is kept there. */
export function makeTables(db: DatabaseSync): void {
  db.exec(TABLES);
  const find = db.prepare('select 1 from sqlite_schema where name = ?');
  const missing = () => STEPS.filter(({ makes }) => find.get(makes) === undefined);
  if (missing().length === 0) return;
  db.exec('begin immediate');
  try {
    // Another process may have made them meanwhile.
    for (const { sql } of missing()) db.exec(sql);
    db.exec('commit');
  } catch (error) {
    if (db.isTransaction) db.exec('rollback');
    throw error;
  }
}
