import { duckdbDialect } from '../../jobs/engines/duckdb/dialect.ts';
import { openSession } from '../../jobs/engines/duckdb/session.ts';
import type { Engine } from '../../jobs/engines/port.ts';
import { createSqlEngine } from '../../jobs/engines/sql/engine.ts';
import { systemClock } from '../../src/kernel/clock.ts';

/** DuckDB, with plans that compare few members at once, as if there were many. */
export async function openInParts(path: string): Promise<Engine> {
  const file = { path, readOnly: false, settings: {}, patience: 10_000, clock: systemClock };
  const tuned = { plan: () => [], members: () => [], history: () => [] };
  const parts = duckdbDialect.parts && { ...duckdbDialect.parts, most: 'SELECT 1' };
  return createSqlEngine({
    dialect: { ...duckdbDialect, parts },
    session: await openSession(file),
    writable: true,
    tuned,
    scrub: async () => {},
  });
}
