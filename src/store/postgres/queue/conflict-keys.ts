/**
 * SQL for whether a row has one of these conflict keys, of the destination at its place. It looks each key up in the row's index, and
 * is no join: while the planner takes the table for empty, as after a vacuum of one that was, it would pass over the whole table,
 * and over all keys for each row of it. Such a plan is kept until the next vacuum or ANALYZE, however full the table is by then.
 */
export const hasOneOf = (row: string, conflicts: string, destinations: string) => `
  ${row}.conflict = ANY (${conflicts}::text[])
  AND ((${row}.conflict, ${row}.destination) IN (SELECT * FROM unnest(${conflicts}::text[], ${destinations}::text[]))) IS TRUE`;
