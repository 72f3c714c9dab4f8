import { RollcallError } from '../../../src/kernel/errors.ts';

/** First tokens whose content is ignored: strings, quoted names, dollar quotes and comments. Then all others. */
const TOKENS = tokens(/[eE]'(?:[^'\\]|\\[\s\S]|'')*'|'(?:[^']|'')*'/, /--/);
/** For databases in which a backslash escapes in every string, and `#` begins a comment. */
const ESCAPED_TOKENS = tokens(/'(?:[^'\\]|\\[\s\S]|'')*'|`(?:[^`\\]|\\[\s\S])*`/, /--|#[ !]/);

function tokens(text: RegExp, comment: RegExp): RegExp {
  const quoted = `(?<quoted>${text.source}|"(?:[^"]|"")*"|\\$(?<tag>\\w*)\\$[\\s\\S]*?\\$\\k<tag>\\$)`;
  const blank = String.raw`(?<blank>(?:${comment.source})[^\n]*|\/\*[\s\S]*?\*\/|\s+)`;
  return new RegExp(String.raw`${quoted}|${blank}|(?<now>\$now\b)|(?<end>;)|(?<code>\w+|[\s\S])`, 'g');
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
  for (const { 0: token, groups = {} } of sql.matchAll(escapes ? ESCAPED_TOKENS : TOKENS)) {
    if (groups['end'] !== undefined) ended = true;
    else if (groups['blank'] !== undefined) text += token;
    else if (ended) throw new RollcallError('sql_failed', 'The SQL must be a single statement.');
    else {
      empty = false;
      text += groups['now'] === undefined ? token : now;
    }
  }
  if (empty) throw new RollcallError('sql_failed', 'The SQL is empty.');
  return text;
}

/** The same with `$now` filled in. */
export function readStatement(sql: string, asOf: number): string {
  return singleStatement(sql, timestampLiteral(asOf));
}

/** A UTC `TIMESTAMP`: with its type stated, `$now` fits wherever a timestamp does. */
export function timestampLiteral(at: number): string {
  return `TIMESTAMP '${new Date(at).toISOString().replace('T', ' ').replace('Z', '')}'`;
}
