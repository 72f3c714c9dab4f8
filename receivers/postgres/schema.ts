/**
 * The SQL that makes the table.
 *
 * @throws TypeError when the name of the table is not one
 */
export function postgresSchema(table = 'rollcall_receiver'): string {
  const index = `${table.split('.').at(-1)}_done`;
  return `
    create table if not exists ${checkedName(table)} (
      name text primary key,
      -- Of a request: when it was handled, in milliseconds since 1970. Null of changes, and of requests at work.
      done_at bigint,
      -- Of a change: the highest sequence that was handled.
      sequence bigint not null default -1,
      holder text,
      held_until bigint
    );
    create index if not exists ${index} on ${table} (done_at) where done_at is not null;`;
}

/** @throws TypeError when the name of the table is not one */
export function checkedName(table: string): string {
  if (!/^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?$/.test(table)) {
    throw new TypeError('give a table name of lowercase letters, digits and underscores, with a schema or without');
  }
  return table;
}
