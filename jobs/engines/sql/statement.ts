import { RollcallError } from '../../../src/kernel/errors.ts';

/** A database's rules for the parts of SQL whose content is ignored: strings, quoted names and comments. */
export interface Lexis {
  readonly tokens: RegExp;
  /** True if comments contain comments. */
  readonly nests: boolean;
}

const DOUBLE = '"(?:[^"]|"")*"';
const ESCAPED = String.raw`'(?:[^'\\]|\\[\s\S]|'')*'`;
const DOLLAR = String.raw`\$(?<tag>\w*)\$[\s\S]*?\$\k<tag>\$`;

/** DuckDB and Postgres. */
export const STANDARD = lexis([`[eE]${ESCAPED}`, "'(?:[^']|'')*'", DOUBLE, DOLLAR], '--', true);
/** A backslash escapes in every string. */
export const CLICKHOUSE = lexis([ESCAPED, String.raw`\`(?:[^\`\\]|\\[\s\S])*\``, DOUBLE, DOLLAR], '--|#[ !]', false);
/** The same, and texts stand within double quotes too. Two hyphens begin a comment only before a blank. */
export const MYSQL = lexis([ESCAPED, ESCAPED.replaceAll("'", '"'), '`(?:[^`]|``)*`'], String.raw`--(?=\s|$)|#`, false);
export const SQLITE = lexis(["'(?:[^']|'')*'", DOUBLE, '`(?:[^`]|``)*`', String.raw`\[[^\]]*\]`], '--', false);
/** Brackets are of arrays here, and no names. */
export const TRINO = lexis(["'(?:[^']|'')*'", DOUBLE], '--', false);
export const SNOWFLAKE = lexis([ESCAPED, DOUBLE, String.raw`\$\$[\s\S]*?\$\$`], String.raw`--|\/\/`, false);
/** Double quotes are of texts too, and three of either kind hold lines. */
export const BIGQUERY = lexis(
  [`'''`, `"""`, "'", '"', '`'].map((quote) => String.raw`${quote}(?:[^\\]|\\[\s\S])*?${quote}`),
  '--|#',
  false,
);

function lexis(quotes: readonly string[], comment: string, nests: boolean): Lexis {
  const blank = String.raw`(?<blank>(?:${comment})[^\n]*|\s+)`;
  const rest = String.raw`(?<now>\$now\b)|(?<end>;)|(?<code>\w+|[\s\S])`;
  return { tokens: new RegExp(String.raw`(?<open>\/\*)|(?<quoted>${quotes.join('|')})|${blank}|${rest}`, 'g'), nests };
}

interface Token {
  readonly kind: 'blank' | 'now' | 'end' | 'code';
  readonly text: string;
  readonly at: number;
}

export function* tokensOf(sql: string, { tokens, nests }: Lexis): Generator<Token> {
  const next = new RegExp(tokens);
  for (let at = 0; at < sql.length; ) {
    next.lastIndex = at;
    const { 0: found, groups = {} } = next.exec(sql) as RegExpExecArray;
    const text = groups['open'] === undefined ? found : sql.slice(at, commentEnd(sql, at, nests));
    const named = (['blank', 'now', 'end'] as const).find((kind) => groups[kind] !== undefined);
    yield { kind: groups['open'] === undefined ? (named ?? 'code') : 'blank', text, at };
    at += text.length;
  }
}

function commentEnd(sql: string, from: number, nests: boolean): number {
  let depth = 0;
  for (const { 0: edge, index } of sql.slice(from).matchAll(/\/\*|\*\//g)) {
    if (edge === '*/') depth -= 1;
    else if (nests || depth === 0) depth += 1;
    if (depth === 0) return from + index + edge.length;
  }
  return sql.length;
}

/**
 * A definition that fits into a subquery: one statement, without its final semicolon.
 *
 * @param now - takes the place of `$now`
 * @throws RollcallError `sql_failed` if it is empty or more than one statement
 */
export function singleStatement(sql: string, now = '$now', lexis = STANDARD): string {
  let text = '';
  let ended = false;
  let empty = true;
  for (const token of tokensOf(sql, lexis)) {
    if (token.kind === 'end') ended = true;
    else if (token.kind === 'blank') text += token.text;
    else if (ended) throw new RollcallError('sql_failed', 'The SQL must be a single statement.');
    else {
      empty = false;
      text += token.kind === 'now' ? now : token.text;
    }
  }
  if (empty) throw new RollcallError('sql_failed', 'The SQL is empty.');
  return text;
}

/** The place in a definition of a place in the statement that `singleStatement` made of it. */
export function authoredPlace(sql: string, now: string, place: number, lexis = STANDARD): number {
  let left = place;
  for (const { kind, text, at } of tokensOf(sql, lexis)) {
    const length = kind === 'end' ? 0 : kind === 'now' ? now.length : text.length;
    if (left < length) return kind === 'now' ? at : at + left;
    left -= length;
  }
  return sql.trimEnd().length;
}

/** The only place in a definition where a name stands, outside strings and comments; null if there are more. */
export function placeOfName(sql: string, name: string, lexis: Lexis): number | null {
  const [first, ...parts] = [...tokensOf(name, lexis)].map(({ text }) => bare(text).toLowerCase());
  const tokens = [...tokensOf(sql, lexis)].filter(({ kind }) => kind !== 'blank');
  const found = tokens.filter(({ text }, index) => {
    const rest = parts.every((part, n) => bare(tokens[index + 1 + n]?.text ?? '').toLowerCase() === part);
    return bare(text).toLowerCase() === first && rest;
  });
  return found.length === 1 ? (found[0]?.at ?? null) : null;
}

const bare = (name: string) => name.replaceAll(/^["`[]|["`\]]$/g, '');

/** The statement of a definition with `$now` filled in. */
export function readStatement(sql: string, asOf: number): string {
  return singleStatement(sql, timestampLiteral(asOf));
}

/** A UTC `TIMESTAMP`: with its type stated, `$now` fits wherever a timestamp does. */
export function timestampLiteral(at: number): string {
  return `TIMESTAMP '${new Date(at).toISOString().replace('T', ' ').replace('Z', '')}'`;
}
