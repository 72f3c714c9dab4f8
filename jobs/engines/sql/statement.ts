import { RollcallError } from '../../../src/errors.ts';

/** Strings, quoted names, comments and dollar quotes, within which nothing has a meaning; then what has. */
const TOKENS =
  /(?<quoted>[eE]'(?:[^'\\]|\\[\s\S]|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(?<tag>\w*)\$[\s\S]*?\$\k<tag>\$)|(?<blank>--[^\n]*|\/\*[\s\S]*?\*\/|\s+)|(?<now>\$now\b)|(?<end>;)|(?<code>\w+|[\s\S])/g;

/**
 * A definition as a subquery can hold it: one statement, without its final semicolon.
 *
 * @throws RollcallError `sql_failed` when it is empty or more than one statement
 */
export function singleStatement(sql: string, now = '$now'): string {
  let text = '';
  let ended = false;
  let empty = true;
  for (const { 0: token, groups = {} } of sql.matchAll(TOKENS)) {
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
function timestampLiteral(at: number): string {
  return `TIMESTAMP '${new Date(at).toISOString().replace('T', ' ').replace('Z', '')}'`;
}
