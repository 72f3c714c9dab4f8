import { raw, sql } from '../sql.ts';
import type { Dialect } from './session.ts';

/** Rows of values for a FROM clause, and SQL for each of their columns. */
export function listed(dialect: Dialect, rows: readonly (readonly (string | number | null)[])[]) {
  const text = (place: number) => sql`listed.value ->> ${raw(String(place))}`;
  return {
    from: sql`${dialect.jsonRows(JSON.stringify(rows))} AS listed`,
    text,
    number: (place: number) => sql`CAST(${text(place)} AS bigint)`,
  };
}
