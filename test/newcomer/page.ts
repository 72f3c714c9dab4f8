/** A command as a page shows it, and the lines that should come out. */
export interface Step {
  readonly command: string;
  readonly output: readonly string[];
}

/** Where commands are typed that is no pipe, and what is answered to them. */
export interface Terminal {
  readonly answer: string;
}

/** The steps of a page's reader, in order. */
export type Action =
  | { readonly kind: 'type'; readonly steps: readonly Step[]; readonly terminal: Terminal | null }
  /** Puts a block into a file: all of it, or from a line on. */
  | { readonly kind: 'write'; readonly file: string; readonly from: string | null; readonly text: string }
  /** Sees these lines in other terminals. */
  | { readonly kind: 'see'; readonly lines: readonly string[] };

const BLOCK = /(?:<!-- ([^\n]*?) -->\n)?^```(\w*)\n(.*?)^```/gms;

/**
 * Reads a page. A comment before a block says what becomes of it: `file: NAME`, `replace from "LINE" in: NAME`, `output`,
 * `on a terminal`, `on a terminal, answering: y`, or `not played: WHY`. Blocks of `console` are typed; others without a comment
 * are only read.
 */
export function actionsOf(markdown: string): readonly Action[] {
  return [...markdown.matchAll(BLOCK)].flatMap(([, note = '', language = '', text = '']): Action[] => {
    if (note.startsWith('not played: ')) return [];
    const [, whole] = /^file: (\S+)$/.exec(note) ?? [];
    if (whole !== undefined) return [{ kind: 'write', file: whole, from: null, text }];
    const [, from = '', part] = /^replace from "([^"]+)" in: (\S+)$/.exec(note) ?? [];
    if (part !== undefined) return [{ kind: 'write', file: part, from, text }];
    if (note === 'output') return [{ kind: 'see', lines: text.split('\n').filter(Boolean) }];
    return language === 'console' ? [{ kind: 'type', steps: stepsOf(text), terminal: terminalOf(note) }] : [];
  });
}

function terminalOf(note: string): Terminal | null {
  const [terminal, answer = ''] = /^on a terminal(?:, answering: (\w+))?$/.exec(note) ?? [];
  return terminal === undefined ? null : { answer };
}

function stepsOf(text: string): Step[] {
  const steps: { command: string; output: string[] }[] = [];
  for (const line of text.split('\n').filter(Boolean)) {
    if (line.startsWith('$ ')) steps.push({ command: line.slice(2), output: [] });
    else steps.at(-1)?.output.push(line);
  }
  return steps;
}

/** Texts that differ from one time to the next. */
const VARIABLE: readonly (readonly [RegExp, string])[] = [
  [/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '<time>'],
  [/\b\d\d:\d\d:\d\d\b/g, '<clock>'],
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22,}\b/g, '<id>'],
  [/\b[0-9a-z]{8}-[0-9a-f]{8}\b/g, '<run>'],
  [/\b[0-9a-f]{10,}(-[0-9a-z]{1,4})?\b/g, '<id>'],
  [/\b\d+(\.\d+)? ?(ms|s|m|h|d)\b/g, '<duration>'],
  [/\s+/g, ' '],
];

const same = (line: string) =>
  VARIABLE.reduce((text, [pattern, name]) => text.replaceAll(pattern, name), line.trim()).trim();

/** Whether a line is as the page has it; `…` in it stands for anything. */
function matches(expected: string, line: string): boolean {
  const parts = same(expected).split('…').map(escapeText);
  return new RegExp(`^${parts.join('.*')}$`).test(same(line));
}

const escapeText = (text: string) => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');

/** The first line that is not as the page has it; null if all are. A line `…` stands for any lines. */
export function difference(expected: readonly string[], output: string): string | null {
  const lines = output.split('\n').filter((line) => line.trim() !== '');
  let place = 0;
  let anything = false;
  for (const line of expected) {
    if (line.trim() === '…') {
      anything = true;
      continue;
    }
    const found = anything
      ? lines.findIndex((each, index) => index >= place && matches(line, each))
      : matches(line, lines[place] ?? '')
        ? place
        : -1;
    if (found < 0) return `${JSON.stringify(line)} is not there; there is ${JSON.stringify(lines.slice(place))}`;
    place = found + 1;
    anything = false;
  }
  if (expected.length === 0 || anything || place === lines.length) return null;
  return `more is printed than the page has: ${JSON.stringify(lines.slice(place))}`;
}
