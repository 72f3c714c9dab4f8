import { type ConfiguredDefinition, compile } from '../../../jobs/engines/definitions/compile.ts';
import { duckdbDialect } from '../../../jobs/engines/duckdb/dialect.ts';
import { eventsOf } from '../../../jobs/engines/duckdb/event-log.ts';
import { openSession as openDuckdb } from '../../../jobs/engines/duckdb/session.ts';
import { postgresDialect } from '../../../jobs/engines/postgres/dialect.ts';
import { openSession as openPostgres } from '../../../jobs/engines/postgres/session.ts';
import { eventLogFor } from '../../../jobs/event-log-access.ts';
import type { Config } from '../../../src/config/config.ts';
import { systemClock } from '../../../src/kernel/clock.ts';
import type { Store } from '../../../src/store/port.ts';
import type { Commit } from '../../definitions/helpers/arbitrary.ts';
import { commit, resultOf } from '../../definitions/helpers/engines.ts';

/** What short definitions read. */
const VIEWS = new Set(
  ['events', 'tracks', 'pages', 'screens', 'identifies', 'identities'].map((name) => `rollcall_${name}`),
);

/** The result of definitions' SQL over the log of a store, without audiences and their runs. */
export async function openSql(store: Store, config: Pick<Config, 'eventLog' | 'store' | 'engines'>) {
  const engine = config.engines['lake'];
  const isPostgres = engine?.type === 'postgres';
  const duckdb = isPostgres
    ? null
    : await openDuckdb({
        path: ':memory:',
        readOnly: false,
        patience: 0,
        clock: systemClock,
        settings: { threads: '1' },
      });
  const session = duckdb ?? (await openPostgres(config.store.url));
  const { eventLog } = engine ? eventLogFor(engine, config, store) : {};
  const log = duckdb && eventLog ? eventsOf(duckdb, eventLog) : null;
  const [dialect, type, prefix] = duckdb
    ? ([duckdbDialect, 'duckdb', 'rollcall_'] as const)
    : ([postgresDialect, 'postgres', 'rollcall_events.'] as const);
  return {
    /** Reads the log as it is now, where that has to be done before it is asked. */
    read: async () => log?.show(VIEWS),
    /** Puts the values of a trait where the SQL finds them; on Postgres they are there. */
    commit: async (key: string, values: Commit) => (isPostgres ? undefined : commit(session, key, values)),
    answer: async (
      kind: 'audience' | 'trait',
      definition: ConfiguredDefinition,
      other: (key: string) => ConfiguredDefinition,
      now: number,
    ) => resultOf(session, dialect, kind, compile(definition, type, other), now),
    /** How many user ids there are. */
    users: async () => {
      const [[count] = [0]] = await session.rows(`SELECT count(DISTINCT user_id) FROM ${prefix}events`);
      return Number(count);
    },
  };
}
