import type { PostgresConfig } from '../../../src/config/config.ts';
import type { Clock } from '../../../src/kernel/clock.ts';
import { examineServer } from '../../../src/store/postgres-server.ts';
import { type OpenReader, readElsewhere } from '../../readers/read-elsewhere.ts';
import type { FileUse } from '../duckdb/files.ts';
import type { Engine, StageRequest } from '../port.ts';
import { createSqlEngine } from '../sql/engine.ts';
import { cancelledBy } from '../sql/session.ts';
import { tablesOf } from '../sql/tables.ts';
import { postgresDialect } from './dialect.ts';
import { openSession } from './session.ts';
import { stayingSession } from './staying.ts';

const PREFIX = postgresDialect.prefix(`user_id${postgresDialect.binary}`);

interface PostgresOptions {
  readonly clock?: Clock;
  readonly readOnly?: boolean;
  readonly timeout?: number | undefined;
  /** True if the database is the store's and contains the event log. */
  readonly seesEvents?: boolean;
  readonly signal?: AbortSignal | undefined;
  /** `stays` is as for a file. */
  readonly file?: Pick<FileUse, 'stays'> | undefined;
  /** Opens the database in which definitions run, if it is another. */
  readonly reads?: OpenReader | undefined;
}

/**
 * The push-down engine: definitions and comparisons run in the customer's Postgres, and only changes leave it.
 * Snapshots and plans live in a schema of their own.
 *
 * @throws RollcallError `engine_unreachable`
 */
export async function openPostgres(
  { url, schema }: PostgresConfig,
  { clock, readOnly = false, timeout, seesEvents = false, signal, file, reads }: PostgresOptions = {},
): Promise<Engine> {
  const options = { timeout, seesEvents };
  const opened = await (file?.stays && clock ? stayingSession(url, options, clock, signal) : openSession(url, options));
  const session = { ...(readOnly ? cancelledBy(signal, opened) : opened), schema };
  const engine = createSqlEngine({
    dialect: postgresDialect,
    session,
    writable: !readOnly,
    tuned: {
      plan: (table) => [`CREATE INDEX ON ${table} (n)`, `ANALYZE ${table}`],
      // A hash index takes ids of any length.
      members: (table) => [
        `CREATE INDEX ON ${table} USING hash (user_id)`,
        // For pages of members and of the changes of a run.
        `CREATE INDEX ON ${table} (${PREFIX})`,
        `CREATE INDEX ON ${table} (since)`,
        `ANALYZE ${table}`,
      ],
      // Rows arrive in order of time, so a range index takes almost no space.
      history: (table) => [
        `CREATE INDEX ON ${table} USING hash (user_id)`,
        `CREATE INDEX ON ${table} USING brin (ended_at)`,
        ...['since', 'until'].map((edge) => `CREATE INDEX ON ${table} (key, ${edge}, ${PREFIX})`),
      ],
    },
    // Postgres itself decides how long free space and its log keep traces.
    async scrub(tables) {
      for (const table of tables) await session.run(`VACUUM (SKIP_LOCKED) ${table}`);
    },
  });
  const { rows, isPooled } = session;
  const own = { ...engine, examine: (connections: number) => examineServer({ rows, isPooled, connections, schema }) };
  if (!reads) return own;
  // Behind a pooler, the next statement may run in a session that has no temporary table of ours.
  const staging = ({ key, plan }: StageRequest) =>
    isPooled
      ? ({ kind: 'UNLOGGED', table: tablesOf(session).rows(readOnly ? plan : key) } as const)
      : ({ kind: 'TEMPORARY', table: 'rollcall_rows' } as const);
  return readElsewhere({ engine: own, session, staging }, reads);
}
