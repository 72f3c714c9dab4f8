/** Escapes of half a surrogate pair and of U+0000, which JSON allows but DuckDB or Postgres reject. */
const UNREADABLE = /\\u(?:[dD][89a-fA-F]|0000)/;

/** Rewrite bodies, one per line, so that both databases can read them. */
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

/** Replace U+0000 by its picture, as elsewhere in Postgres. */
function cleanedText(text: string): string {
  return text.toWellFormed().replaceAll('\0', '\u2400');
}
