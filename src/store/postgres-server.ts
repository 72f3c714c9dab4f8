import type { Remark } from '../kernel/remark.ts';

interface Use {
  /** Runs a query; rows are arrays. */
  rows(sql: string): Promise<readonly (readonly unknown[])[]>;
  readonly isPooled: boolean;
  /** Connections that one process takes. */
  readonly connections: number;
  /** The schema of the tables. */
  readonly schema?: string | undefined;
}

const lookAt = (schema: string) => `SELECT current_setting('server_version'), current_user,
  pg_is_in_recovery(),
  current_setting('default_transaction_read_only') = 'on',
  CASE WHEN to_regnamespace('"${schema}"') IS NULL THEN has_database_privilege(current_database(), 'CREATE')
    ELSE has_schema_privilege('${schema}', 'CREATE') AND has_schema_privilege('${schema}', 'USAGE') END,
  (SELECT least(
      current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int - count(*),
      (SELECT datconnlimit FROM pg_database WHERE datname = current_database() AND datconnlimit >= 0)
        - count(*) FILTER (WHERE datname = current_database()),
      (SELECT rolconnlimit FROM pg_roles WHERE rolname = session_user AND rolconnlimit >= 0)
        - count(*) FILTER (WHERE usename = session_user))
    FROM pg_stat_activity WHERE backend_type = 'client backend')::int,
  to_regnamespace('"${schema}"') IS NOT NULL`;

/** Checks that a Postgres server meets the needs of a store or an engine; writes nothing. */
export async function examineServer({
  rows,
  isPooled,
  connections,
  schema = 'rollcall',
}: Use): Promise<readonly Remark[]> {
  const [row = []] = await rows(lookAt(schema));
  const [version, user, isStandby, isReadOnly, mayWrite, free, hasSchema] = row;
  const remarks: Remark[] = [];
  if (isStandby === true) {
    const message = 'is a standby and read-only. Name the primary, or an address that leads to it';
    remarks.push({ state: 'failed', message });
  } else if (isReadOnly === true) {
    const message = `does not let ${user} write (default_transaction_read_only). ALTER ROLE ${quoted(user)} SET default_transaction_read_only = off`;
    remarks.push({ state: 'failed', message });
  } else if (mayWrite !== true) {
    const cure =
      hasSchema === true ? `GRANT USAGE, CREATE ON SCHEMA ${schema} TO` : `CREATE SCHEMA ${schema} AUTHORIZATION`;
    const message = `does not let ${user} create tables in the schema ${schema}. Have an administrator run ${cure} ${quoted(user)}`;
    remarks.push({ state: 'failed', message });
  }
  // A pooler limits that number itself.
  if (!isPooled && Number(free) < connections) {
    const message = `has ${Math.max(0, Number(free))} connections free, and each process takes up to ${connections}. Raise max_connections, or the CONNECTION LIMIT of the database or of ${user}, or put a pooler in front of it`;
    remarks.push({ state: 'warning', message });
  }
  const where = isPooled ? 'behind a pooler' : `${free} connections free`;
  return [...remarks, { state: 'ok', message: `PostgreSQL ${version}, ${where}` }];
}

export const quoted = (name: unknown) => `"${String(name).replaceAll('"', '""')}"`;
