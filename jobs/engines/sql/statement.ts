import { RollcallError } from '../../../src/kernel/errors.ts';

/** First tokens whose content is ignored: strings, quoted names, dollar quotes and comments. Then all others. */
const TOKENS = tokens(/[eE]'(?:[^'\\]|\\[\s\S]|'')*'|'(?:[^']|'')*'/, /--/);
/** For databases in which a backslash escapes in every string, and `#` begins a comment. */
const ESCAPED_TOKENS = tokens(/'(?:[^'\\]|\\[\s\S]|'')*'|`(?:[^`\\]|\\[\s\S])*`/, /--|#[ !]/);

function tokens(text: RegExp, comment: RegExp): RegExp {
  const quoted = `(?<quoted>${text.source}|"(?:[^"]|"")*"|\\$(?<tag>\\w*)\\$[\\s\\S]*?\\$\\k<tag>\\$)`;
  const blank = String.raw`(?<blank>(?:${comment.source})[^\n]*|\s+)`;
  return new RegExp(String.raw`(?<open>\/\*)|${quoted}|${blank}|(?<now>\$now\b)|(?<end>;)|(?<code>\w+|[\s\S])`, 'g');
}

interface Token {
  readonly kind: 'blank' | 'now' | 'end' | 'code';
  readonly text: string;
  readonly at: number;
}

export function* tokensOf(sql: string, escapes: boolean): Generator<Token> {
  const next = new RegExp(escapes ? ESCAPED_TOKENS : TOKENS);
  for (let at = 0; at < sql.length; ) {
    next.lastIndex = at;
    const { 0: found, groups = {} } = next.exec(sql) as RegExpExecArray;
    const text = groups['open'] === undefined ? found : sql.slice(at, commentEnd(sql, at, !escapes));
    const named = (['blank', 'now', 'end'] as const).find((kind) => groups[kind] !== undefined);
    yield { kind: groups['open'] === undefined ? (named ?? 'code') : 'blank', text, at };
    at += text.length;
  }
}

/** @param nests - true if comments contain comments, as in DuckDB and Postgres but not in ClickHouse */
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
 * @param escapes - true if a backslash escapes in strings, as in ClickHouse
 * @throws RollcallError `sql_failed` if it is empty or more than one statement
 */
export function singleStatement(sql: string, now = '$now', escapes = false): string {
  let text = '';
  let ended = false;
  let empty = true;
  for (const token of tokensOf(sql, escapes)) {
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

/** The place in a definition of a place in the statement that `readStatement` made of it. */
export function authoredPlace(sql: string, asOf: number, place: number): number {
  let left = place;
  for (const { kind, text, at } of tokensOf(sql, false)) {
    const length = kind === 'end' ? 0 : kind === 'now' ? timestampLiteral(asOf).length : text.length;
    if (left < length) return kind === 'now' ? at : at + left;
    left -= length;
  }
  return sql.trimEnd().length;
}

/** The same with `$now` filled in. */
export function readStatement(sql: string, asOf: number): string {
  return singleStatement(sql, timestampLiteral(asOf));
}

/** A UTC `TIMESTAMP`: with its type stated, `$now` fits wherever a timestamp does. */
export function timestampLiteral(at: number): string {
  return `TIMESTAMP '${new Date(at).toISOString().replace('T', ' ').replace('Z', '')}'`;
}
