/**
 * Ids that mean nobody: what programs write for a user who is not known. They link no identities and are no members of
 * audiences, unless an audience allows them.
 */
export const PLACEHOLDERS: readonly string[] = [
  ...['undefined', 'null', 'none', 'nil', 'nan', '0', 'true', 'false', 'anonymous', 'guest', 'unknown'],
  ...['[object object]', '{}'],
];

const LONGEST = Math.max(...PLACEHOLDERS.map((id) => id.length));
const KNOWN: ReadonlySet<string> = new Set(PLACEHOLDERS);

/** Compares ASCII letters in any case, as `placeholderSql` does. */
export function isPlaceholder(id: string): boolean {
  return id.length <= LONGEST && KNOWN.has(id.replace(/[A-Z]/g, (letter) => letter.toLowerCase()));
}

/**
 * An SQL condition, for DuckDB and Postgres.
 *
 * @param id - text that is compared by its bytes
 */
export function placeholderSql(id: string): string {
  const list = PLACEHOLDERS.map((each) => `'${each}'`).join(', ');
  // DuckDB would join all rows with the list of an `IN`. Of letters beyond ASCII, some have lower case forms within it.
  return `CASE WHEN length(${id}) > ${LONGEST} THEN FALSE
    ELSE coalesce(array_position(ARRAY[${list}], lower(${id})), 0) > 0 AND bit_length(${id}) = 8 * length(${id}) END`;
}

/** The forms that programs write, to look up. */
export const WRITTEN_PLACEHOLDERS: readonly string[] = [
  ...new Set(PLACEHOLDERS.flatMap((id) => [id, id.toUpperCase(), id.charAt(0).toUpperCase() + id.slice(1)])),
  ...['NaN', '[object Object]'],
];
