import type { DatabaseSync } from 'node:sqlite';

/** A user's oldest stored request is next. Requests without a user do not wait. */
const isOldest = (request: string) => `(${request}.user is null or not exists (
  select 1 from request e
  where e.state = 'stored' and e.scope = ${request}.scope and e.user = ${request}.user and e.seq < ${request}.seq))`;

/** A retried request that was given up may precede newer ones. */
const ENTER = `
  update request set is_next = ${isOldest('new')} where key = new.key;
  update request set is_next = 0 where key = (
    select key from request
    where state = 'stored' and scope = new.scope and user = new.user and seq > new.seq order by seq limit 1);`;

const LEAVE = `
  update request set is_next = 0 where key = old.key;
  update request set is_next = 1 where key = (
    select key from request where state = 'stored' and scope = old.scope and user = old.user order by seq limit 1);`;

// A scope is the receiver's name, '|' and the sender's hexadecimal name. The triggers keep `is_next` right even if a
// person deletes rows. A deleted user's rows are found by `user` of their changes.
const TABLES = `
  create table if not exists request (
    key text primary key,
    state text not null check (state in ('running', 'stored', 'done', 'failed')),
    at integer not null,
    holder text, until integer,
    seq integer, body blob, url text, secret integer, scope text, user text,
    tries integer not null default 0, crashes integer not null default 0, begun integer not null default 0,
    due integer not null default 0, reason text,
    is_next integer not null default 0,
    receiver text generated always as (substr(scope, 1, length(rtrim(scope, replace(scope, '|', ''))) - 1)) virtual
  ) strict;
  create index if not exists request_at on request (state, at);
  create index if not exists request_state on request (state, seq);
  create index if not exists request_seq on request (seq);
  create index if not exists request_line on request (scope, user, seq) where state = 'stored';
  create index if not exists request_next on request (receiver, due, seq) where state = 'stored' and is_next = 1;
  create index if not exists request_failed on request (user) where state = 'failed';
  create trigger if not exists request_kept after insert on request when new.state = 'stored' begin ${ENTER} end;
  create trigger if not exists request_back after update of state on request
    when old.state <> 'stored' and new.state = 'stored' begin ${ENTER} end;
  create trigger if not exists request_left after update of state on request
    when old.state = 'stored' and new.state <> 'stored' begin ${LEAVE} end;
  create trigger if not exists request_gone after delete on request when old.state = 'stored' begin ${LEAVE} end;
  create table if not exists owner (
    receiver text primary key, name text not null, until integer not null, locked integer not null
  ) strict;
  create table if not exists change (
    name text primary key,
    sequence integer not null,
    holder text, until integer,
    deleted_at integer,
    user text generated always as (iif(json_valid(name), json_extract(name, '$[3]'), null)) virtual
  ) strict;
  create index if not exists change_user on change (user);
  create index if not exists change_deleted on change (deleted_at) where deleted_at is not null;
`;

/** Makes missing tables. Does not use `user_version`, which may be the app's. */
export function makeTables(db: DatabaseSync): void {
  db.exec(TABLES);
}
