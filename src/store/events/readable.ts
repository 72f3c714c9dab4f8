/** Escapes of half a character and of U+0000, which JSON allows, and DuckDB or Postgres refuse. */
const UNREADABLE = /\\u(?:[dD][89a-fA-F]|0000)/;

/** Bodies, one on each line, as both databases can read them. */
export function readable(bodies: string): string {
  if (!UNREADABLE.test(bodies)) return bodies;
  return bodies
    .split('\n')
    .map((body) => (UNREADABLE.test(body) ? JSON.stringify(cleaned(JSON.parse(body))) : body))
    .join('\n');
}

function cleaned(value: unknown): unknown {
  if (typeof value === 'string') return cleanedText(value);
  if (Array.isArray(value)) return value.map(cleaned);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [cleanedText(key), cleaned(inner)]));
}

/** U+0000 becomes its picture, as elsewhere in Postgres. */
function cleanedText(text: string): string {
  return text.toWellFormed().replaceAll('\0', '\u2400');
}
