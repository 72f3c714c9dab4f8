/** SQL that recognises rows of changes, and SQL for the user at the end of their name, as JSON. No other text matches. */
export const IS_CHANGE = "name like 'c:%'";
export const USER = `substring(name from '^c:\\[.*,("(?:[^"\\\\]|\\\\.)*")\\]$')`;

/**
 * The SQL that makes the table.
 *
 * @throws TypeError when the table's name is invalid
 */
export function postgresSchema(table = 'rollcall_receiver'): string {
  const index = table.split('.').at(-1);
  return `
    create table if not exists ${checkedName(table)} (
      name text primary key,
      -- Of a request: when it was handled, in milliseconds since 1970; null while it is at work. Of a change: when the
      -- deletion of its user was handled; null unless it was.
      done_at bigint,
      -- Of a change: the highest sequence that was handled.
      sequence bigint not null default -1,
      holder text,
      held_until bigint
    );
    create index if not exists ${index}_done on ${table} (done_at) where done_at is not null;
    create index if not exists ${index}_user on ${table} (${USER}) where ${IS_CHANGE};`;
}

/** @throws TypeError when the table's name is invalid */
export function checkedName(table: string): string {
  if (!/^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?$/.test(table)) {
    throw new TypeError('give a table name of lowercase letters, digits and underscores, with a schema or without');
  }
  return table;
}
