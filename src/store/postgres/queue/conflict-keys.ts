/**
 * SQL condition for rows that have one of these conflict keys, with the destination at the same place. It looks up each
 * key in the row's index. A join would scan the whole table while the planner takes it for empty, as after a vacuum of
 * an empty one, and all keys for each row. Such a plan lasts until the next vacuum or ANALYZE, however full the table
 * is then.
 */
export const hasOneOf = (row: string, conflicts: string, destinations: string) => `
  ${row}.conflict = ANY (${conflicts}::text[])
  AND ((${row}.conflict, ${row}.destination) IN (SELECT * FROM unnest(${conflicts}::text[], ${destinations}::text[]))) IS TRUE`;
