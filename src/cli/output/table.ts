import { COLOUR, localTime } from './terminal.ts';
import { textWidth, truncated } from './text-width.ts';

const NARROWEST = 8;
const GAP = '  ';

interface TableOptions {
  /** Characters per line; unlimited if absent, as in a pipe. */
  readonly width?: number | undefined;
  /** Columns that may be cut if lines are too long. Ids and counts are never cut. */
  readonly flexible?: readonly string[];
  /** Columns that move to a second line if lines are too long; otherwise the last ones do, as many as have to. */
  readonly below?: readonly string[];
}

/**
 * Columns as wide as their widest cell. If they don't fit, long ones are cut, then some move to a second line. If even that
 * does not fit, each row becomes a block. With a width, times are shown as people read them.
 */
export function table(
  header: readonly string[],
  rows: readonly (readonly string[])[],
  { width = Number.POSITIVE_INFINITY, flexible = [], below = [] }: TableOptions = {},
): string {
  const isRead = width !== Number.POSITIVE_INFINITY;
  const shown = rows.map((row) => row.map((cell) => (isRead ? readable(inOneLine(cell)) : inOneLine(cell))));
  const lasts = header.map((_, index) => header.slice(index)).toReversed();
  const moved = below.length > 0 ? [below] : lasts.slice(0, -1);
  for (const down of [[], ...moved]) {
    const lines = twoLines(header, shown, { width, flexible, below: down });
    if (lines) return lines.join('\n');
  }
  return blocks(header, shown);
}

const readable = (cell: string) => (ISO.test(cell) ? localTime(Date.parse(cell)) : cell);
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

/** The lines of a table; null if they don't fit. */
function fitting(
  header: readonly string[],
  rows: readonly (readonly string[])[],
  width: number,
  flexible: readonly string[],
): readonly string[] | null {
  const lines = [header, ...rows];
  const natural = header.map((_, column) =>
    lines.reduce((widest, line) => Math.max(widest, textWidth(line[column] ?? '')), 0),
  );
  const widths = narrowed(natural, header, width, flexible);
  if (widths === null) return null;
  return lines.map((line) =>
    line
      .map((cell, column) => padded(cell, widths[column] ?? 0))
      .join(GAP)
      .trimEnd(),
  );
}

/** Ids and messages are foreign text: remove line breaks, and control characters other than our colours. */
const CONTROLS = new RegExp(`(?:(?!${COLOUR})[\\p{Cc}\\u2028\\u2029])+\\s*`, 'gu');
const inOneLine = (cell: string) => cell.replaceAll(CONTROLS, ' ');

/** Shrink the widest flexible column until the lines fit; null if they can't. */
function narrowed(
  natural: readonly number[],
  header: readonly string[],
  width: number,
  flexible: readonly string[],
): readonly number[] | null {
  const widths = [...natural];
  const least = (column: number) => Math.max(NARROWEST, textWidth(header[column] ?? ''));
  const excess = () => widths.reduce((sum, each) => sum + each + GAP.length, -GAP.length) - width;
  for (let over = excess(); over > 0; over = excess()) {
    const [widest] = header
      .flatMap((name, column) => (flexible.includes(name) && (widths[column] ?? 0) > least(column) ? [column] : []))
      .toSorted((a, b) => (widths[b] ?? 0) - (widths[a] ?? 0));
    if (widest === undefined) return null;
    widths[widest] = Math.max(least(widest), (widths[widest] ?? 0) - Math.max(1, Math.min(over, NARROWEST)));
  }
  return widths;
}

function padded(cell: string, width: number): string {
  const cut = textWidth(cell) > width ? truncated(cell, width) : cell;
  return cut + ' '.repeat(Math.max(0, width - textWidth(cut)));
}

/** `name: cell` lines, a block for each row. */
function blocks(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const widest = Math.max(...header.map((name) => textWidth(name)));
  return rows
    .map((row) =>
      header.map((name, column) => `${padded(name, widest)}${GAP}${row[column] ?? ''}`.trimEnd()).join('\n'),
    )
    .join('\n\n');
}

/** Lines of the columns, each with those below it by name; null if they don't fit. */
function twoLines(
  header: readonly string[],
  rows: readonly (readonly string[])[],
  { width, flexible, below }: { width: number; flexible: readonly string[]; below: readonly string[] },
): readonly string[] | null {
  const isBelow = header.map((name) => below.includes(name));
  const above = (cells: readonly string[]) => cells.filter((_, column) => !isBelow[column]);
  const lines = fitting(above(header), rows.map(above), width, flexible);
  return (
    lines?.flatMap((line, place) => {
      const row = rows[place - 1] ?? [];
      const named = header.flatMap((name, column) =>
        isBelow[column] && row[column] ? [`${name} ${row[column]}`] : [],
      );
      return named.length === 0 ? [line] : [line, GAP + named.join(', ')];
    }) ?? null
  );
}

/** Adds a column of owners if anything in the table has one. */
export function withOwners(
  header: readonly string[],
  rows: readonly (readonly string[])[],
  items: readonly { readonly owner?: string }[],
): [header: readonly string[], rows: readonly (readonly string[])[]] {
  if (items.every(({ owner }) => owner === undefined)) return [header, rows];
  return [[...header, 'owner'], rows.map((row, index) => [...row, items[index]?.owner ?? '-'])];
}
