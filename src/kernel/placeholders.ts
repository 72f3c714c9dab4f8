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
const ASCII = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ';

/** Compares ASCII letters in any case, as `placeholderSql` does. */
export function isPlaceholder(id: string): boolean {
  return id.length <= LONGEST && KNOWN.has(id.replace(/[A-Z]/g, (letter) => letter.toLowerCase()));
}

/** An SQL condition, for DuckDB, Postgres and ClickHouse. `lower` depends on the locale, and folds more than ASCII. */
export function placeholderSql(id: string): string {
  const list = PLACEHOLDERS.map((each) => `'${each}'`).join(', ');
  return `(length(${id}) <= ${LONGEST} AND translate(${id}, '${ASCII}', '${ASCII.toLowerCase()}') IN (${list}))`;
}
