import type { Definition } from '../port.ts';
import { authoredPlace, readStatement, timestampLiteral } from './statement.ts';

/** A place in SQL as an engine reports it: a line, an excerpt of it and a caret under its column. */
const REPORTED = /\n+LINE (?<line>\d+): (?<excerpt>.*)\n(?<caret> *)\^/;
const LABEL = 'LINE 1: '.length;
/** Characters of a line shown before and after the place. */
const AROUND = 60;

/**
 * Makes an engine's message show the place in the definition as its author wrote it, not in the query around it.
 *
 * @param asked - the query that failed
 */
export function withAuthoredPlace(
  error: Error,
  { sql, asOf }: Pick<Definition, 'sql' | 'asOf'>,
  asked: string,
): string {
  const { position, hint } = error as { position?: string; hint?: string };
  const reported = REPORTED.exec(error.message);
  const place = position ? placeOfCharacter(asked, Number(position)) : reported && placeOfCaret(asked, reported);
  const authored = place === null ? null : placeInDefinition(asked, readStatement(sql, asOf), place);
  const excerpt = authored === null ? '' : excerptOf(sql, authoredPlace(sql, timestampLiteral(asOf), authored));
  // Without a place in the definition, only what is wrong is of use.
  const message = reported ? error.message.replace(REPORTED, () => excerpt) : error.message + excerpt;
  return hint ? `${message}\nHINT: ${hint}` : message;
}

/** @param position - counted in characters, from 1 */
function placeOfCharacter(asked: string, position: number): number {
  return [...asked].slice(0, position - 1).join('').length;
}

function placeOfCaret(asked: string, { groups = {} }: RegExpExecArray): number | null {
  const { line = '', excerpt = '', caret = '' } = groups;
  const lines = asked.split('\n');
  const begun = lines.slice(0, Number(line) - 1).reduce((sum, text) => sum + text.length + 1, 0);
  const isCut = excerpt.startsWith('...');
  const shown = excerpt.replace(/^\.\.\./, '').replace(/\.\.\.$/, '');
  const from = (lines[Number(line) - 1] ?? '').indexOf(shown);
  if (from < 0) return null;
  let width = caret.length - LABEL - (line.length - 1) - (isCut ? 3 : 0);
  let column = 0;
  for (const character of shown) {
    width -= WIDE.test(character) ? 2 : Number(!NARROW.test(character));
    if (width < 0) break;
    column += character.length;
  }
  return begun + from + column;
}

const NARROW = /[\p{Cc}\p{Mn}]/u;
const WIDE = /\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\uff00-\uff60]/u;

/** A parser that misses something reports the first character after the definition. */
const BEHIND = '\n)'.length;

function placeInDefinition(asked: string, statement: string, place: number): number | null {
  const begins = asked.lastIndexOf(statement, place);
  if (begins < 0 || place > begins + statement.length + BEHIND) return null;
  return Math.min(place - begins, statement.length);
}

/** The line of a place in SQL, with a caret under it. */
export function excerptOf(sql: string, place: number): string {
  const before = sql.slice(0, place).split('\n');
  const column = before.at(-1) ?? '';
  const rest = sql.slice(place).split('\n', 1)[0] ?? '';
  const start = column.length > AROUND ? `...${column.slice(-AROUND)}` : column;
  const end = rest.length > AROUND ? `${rest.slice(0, AROUND)}...` : rest;
  const label = `LINE ${before.length}: `;
  return `\n\n${label}${`${start}${end}`.replaceAll('\t', ' ')}\n${' '.repeat(label.length + [...start].length)}^`;
}
