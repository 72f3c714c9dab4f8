import type { DatabaseSession } from './database.ts';

/** Ids that a step of the sequence reserves. Few, as a restored store is only so far ahead (copy/ids-ahead.ts). */
const STEP = 64;

export const stepsFor = (count: number) => Math.ceil(count / STEP);

/** A query for the first ids of new steps. It looks up the sequence once, whose name is not in the migrations. */
const firstIds = (steps: string) => `
  SELECT nextval(s.name) AS first
  FROM (SELECT pg_get_serial_sequence('rollcall.delivery', 'id')::regclass AS name OFFSET 0) AS s, generate_series(1, ${steps})`;

/** SQL to number rows: a part of WITH that takes steps, the id of a row by its place from 0, input for `idsOf`. */
export const numbering = (steps: string) => ({
  taken: `taken AS MATERIALIZED (SELECT array_agg(first) AS firsts FROM (${firstIds(steps)}) AS f)`,
  idAt: (place: string) => `(SELECT firsts FROM taken)[${place} / ${STEP} + 1] + ${place} % ${STEP}`,
  firsts: `(SELECT array_to_string(firsts, ' ') FROM taken)`,
});

/** Return the ids that `numbering` gives. @param firsts - first ids of the steps, separated by spaces */
export function idsOf(firsts: string | null, count: number): number[] {
  const numbers = (firsts ?? '').split(' ').map(Number);
  return Array.from({ length: count }, (_, place) => (numbers[Math.floor(place / STEP)] as number) + (place % STEP));
}

/** Reserve ids for deliveries, never to be reused. */
export async function newIds(session: DatabaseSession, count: number): Promise<number[]> {
  const sql = `SELECT string_agg(first::text, ' ') FROM (${firstIds('$1::int')}) AS f`;
  const [row] = await session.rows<[string]>(sql, [stepsFor(count)]);
  return idsOf(row?.[0] ?? null, count);
}
