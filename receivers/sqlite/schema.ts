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
  create table if not exists change (
    name text primary key,
    sequence integer not null,
    holder text, until integer
  ) strict;
`;

/** The oldest stored request of the user is next; those without a user do not wait. */
const isOldest = (request: string) => `(${request}.user is null or not exists (
  select 1 from request e
  where e.state = 'stored' and e.scope = ${request}.scope and e.user = ${request}.user and e.seq < ${request}.seq))`;

/** One that was given up may come back before those that have come since. */
const ENTER = `
  update request set is_next = ${isOldest('new')} where key = new.key;
  update request set is_next = 0 where key = (
    select key from request
    where state = 'stored' and scope = new.scope and user = new.user and seq > new.seq order by seq limit 1);`;

const LEAVE = `
  update request set is_next = 0 where key = old.key;
  update request set is_next = 1 where key = (
    select key from request where state = 'stored' and scope = old.scope and user = old.user order by seq limit 1);`;

/** What a file lacks that an older version of the kit has made, each with the last thing that it makes. */
const STEPS: readonly { readonly makes: string; readonly sql: string }[] = [
  {
    // A scope is the receiver's name, '|' and the sender's, which is hexadecimal. The triggers keep `is_next` right also
    // beside a process of an older version, or a person who deletes rows.
    makes: 'request_gone',
    sql: `
      alter table request add column receiver text
        generated always as (substr(scope, 1, length(rtrim(scope, replace(scope, '|', ''))) - 1)) virtual;
      alter table request add column is_next integer not null default 0;
      drop index if exists request_user;
      create index request_line on request (scope, user, seq) where state = 'stored';
      update request set is_next = ${isOldest('request')} where state = 'stored';
      create index request_next on request (receiver, due, seq) where state = 'stored' and is_next = 1;
      create trigger request_kept after insert on request when new.state = 'stored' begin ${ENTER} end;
      create trigger request_back after update of state on request
        when old.state <> 'stored' and new.state = 'stored' begin ${ENTER} end;
      create trigger request_left after update of state on request
        when old.state = 'stored' and new.state <> 'stored' begin ${LEAVE} end;
      create trigger request_gone after delete on request when old.state = 'stored' begin ${LEAVE} end;
      create table if not exists owner (name text not null, until integer not null, locked integer not null);
      alter table owner rename to only_owner;
      create table owner (
        receiver text primary key, name text not null, until integer not null, locked integer not null
      ) strict;
      insert into owner select '', name, until, locked from only_owner;
      drop table only_owner;
    `,
  },
  {
    // What a deleted user's rows are found by, and when the deletion was handled.
    makes: 'request_failed',
    sql: `
      alter table change add column user text
        generated always as (iif(json_valid(name), json_extract(name, '$[3]'), null)) virtual;
      alter table change add column deleted_at integer;
      create index change_user on change (user);
      create index change_deleted on change (deleted_at) where deleted_at is not null;
      create index request_failed on request (user) where state = 'failed';
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
