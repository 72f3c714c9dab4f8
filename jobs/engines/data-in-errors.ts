const HIDDEN = '…';
/** A quote opens after a character that ends no word, and closes before one that begins none. */
const QUOTED = /(?<![\w'"`])(['"`])([\s\S]*?)\1(?![\w'"`])/g;
/** Words before a quoted name, of which there may be a list. */
const BEFORE_NAME =
  /\b(?:column|table|relation|schema|view|type|function|extension|specifier|bindings:|meant?|to)\s+(?:"[^"]*",\s*)*$/i;
const NAME = /^[a-z_]\w*$/i;
const BEFORE_FILE = /\bfile\s+$/;
/** A call with types, as DuckDB quotes it, and the type that our own advice names. */
const BEFORE_CALL = /\bargument types $/;
const OUR_TYPE = 'VARCHAR';
/** Data that DuckDB does not quote: a line of a file, numbers that don't fit. */
const UNQUOTED = [
  /(?<=^Original Line: )[\s\S]*?(?=\n(?:Error|Expected|Value|Possible|\n)|$)/gm,
  /(?<=\bwith value ).+?(?= can't be cast)/gs,
  /(?<=\bcast value ).+?(?= to )/gs,
  // Trino and BigQuery.
  /(?<=\b(?:values?(?: cannot be cast)?(?: to \w+)?|overflow|range for \w+): )[^'"][\s\S]*?(?=\n+LINE \d|$)/gi,
  /(?<=\bOverflow in \w+ of \w+ \().+(?=\))/g,
];
/** Shorter values are punctuation, and would be found in every text. */
const SHORTEST = 3;

/**
 * An engine's error without the values of rows, which may be somebody's id: errors are kept, and sent to chats. What the
 * definition's SQL says itself stays, and so do names of columns, types and files.
 */
export function withoutData(message: string, sql: string): string {
  const values = new Set<string>();
  const hide = (value: string) => {
    if (value.length >= SHORTEST) values.add(value);
    return HIDDEN;
  };
  let text = UNQUOTED.reduce((rest, pattern) => rest.replaceAll(pattern, (value) => hide(value)), message);
  text = text.replaceAll(QUOTED, (found: string, quote: string, value: string, at: number, whole: string) => {
    if (value.length < SHORTEST || sql.includes(value)) return found;
    const before = whole.slice(Math.max(0, at - 500), at);
    const parts = value.split('.');
    const isName = parts.every((part) => NAME.test(part) && (parts.length === 1 || sql.includes(part)));
    if ((isName && BEFORE_NAME.test(before)) || BEFORE_FILE.test(before)) return found;
    if (value === OUR_TYPE || BEFORE_CALL.test(before)) return found;
    return `${quote}${hide(value)}${quote}`;
  });
  // DuckDB repeats a value without quotes.
  return [...values].sort((a, b) => b.length - a.length).reduce((rest, value) => rest.replaceAll(value, HIDDEN), text);
}
