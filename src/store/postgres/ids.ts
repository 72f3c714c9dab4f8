import type { DatabaseSession } from './database.ts';

/** Ids that each step of the sequence reserves, as the migration says. Few: a copy of a store is only so many ahead (copy/backup.ts). */
const STEP = 64;

/** Steps for so many ids. */
export const stepsFor = (count: number) => Math.ceil(count / STEP);

/** A query for the first ids of new steps. The sequence is looked up once: its name is not in the migrations. */
const firstIds = (steps: string) => `
  SELECT nextval(s.name) AS first
  FROM (SELECT pg_get_serial_sequence('rollcall.delivery', 'id')::regclass AS name OFFSET 0) AS s, generate_series(1, ${steps})`;

/** A part of a WITH clause that takes steps, and SQL for the id of the row at a place, from 0, and for what `idsOf` reads. */
export const numbering = (steps: string) => ({
  taken: `taken AS MATERIALIZED (SELECT array_agg(first) AS firsts FROM (${firstIds(steps)}) AS f)`,
  idAt: (place: string) => `(SELECT firsts FROM taken)[${place} / ${STEP} + 1] + ${place} % ${STEP}`,
  firsts: `(SELECT array_to_string(firsts, ' ') FROM taken)`,
});

/** The same ids. @param firsts - of the steps, with spaces between them */
export function idsOf(firsts: string | null, count: number): number[] {
  const numbers = (firsts ?? '').split(' ').map(Number);
  return Array.from({ length: count }, (_, place) => (numbers[Math.floor(place / STEP)] as number) + (place % STEP));
}

/** Ids for deliveries that never come again. */
export async function newIds(session: DatabaseSession, count: number): Promise<number[]> {
  const sql = `SELECT string_agg(first::text, ' ') FROM (${firstIds('$1::int')}) AS f`;
  const [row] = await session.rows<[string]>(sql, [stepsFor(count)]);
  return idsOf(row?.[0] ?? null, count);
}
