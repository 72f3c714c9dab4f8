import { randomInt } from 'node:crypto';
import type { Readable, Writable } from 'node:stream';
import pc from 'picocolors';
import { wantsColours } from '../../config/variables.ts';
import { systemClock } from '../../kernel/clock.ts';

interface Screen {
  readonly isTTY?: boolean;
  hasColors?(): boolean;
}

/** The streams that a command reads and writes: the process's own, except in tests. */
export interface Terminal {
  /** Results. */
  readonly stdout: Writable & Screen & { readonly columns?: number };
  /** Logs, progress and errors. */
  readonly stderr: Writable & Screen;
  /** Answers of a person; absent if nobody can be asked. */
  readonly stdin?: Readable & { readonly isTTY?: boolean };
  /** Aborts on the first SIGINT or SIGTERM. */
  readonly signal: AbortSignal;
}

/** True on a terminal with colours, unless NO_COLOR is set; with FORCE_COLOR also in a pipe. */
export const hasColours = (stream: Screen) =>
  wantsColours() ?? (stream.isTTY === true && stream.hasColors?.() !== false);

/** A time for people: by the clock of the terminal, with the day unless it is today. */
export function localTime(at: number, now = systemClock.now()): string {
  const [day, today] = [at, now].map((time) => new Date(time).toDateString());
  const [, month = '', date = '', year = ''] = day?.split(' ') ?? [];
  const clock = new Date(at).toTimeString();
  if (day === today) return clock.slice(0, 8);
  const isOfThisYear = year === String(new Date(now).getFullYear());
  return `${Number(date)} ${month} ${isOfThisYear ? clock.slice(0, 5) : year}`;
}

/** A time within a sentence: for people on a terminal, ISO 8601 in a pipe. */
export const timeIn = ({ stdout }: Pick<Terminal, 'stdout'>, at: number): string =>
  stdout.isTTY === true ? localTime(at) : new Date(at).toISOString();

export function print({ stdout }: Terminal, text: string): void {
  stdout.write(`${forScreen(stdout, text)}\n`);
}

/** Numbers that mark our colours until they are written: foreign text can't know them. */
const MARK = Array.from({ length: 3 }, () => randomInt(1_000, 10_000)).join(';');
/** Our colours, for a regular expression. */
export const COLOUR = `\\u001b\\[${MARK};(\\d{1,2})m`;
const COLOURS = new RegExp(COLOUR, 'g');
const NOT_OURS = `(?!${COLOUR})`;
const STEERING = '\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u202a-\\u202e\\u2066-\\u2069';
const STEERINGS = new RegExp(`${NOT_OURS}[${STEERING}]`, 'g');
const BREAKS = new RegExp(`[${STEERING}\\t\\n\\u2028\\u2029]`, 'g');
export const escaped = (one: string) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`;

type Colour = 'green' | 'yellow' | 'red' | 'dim' | 'bold';

/** Paints text in colours that `forScreen` lets pass. */
export function painter(isColoured: boolean): Record<Colour, (text: string) => string> {
  const colours = pc.createColors(isColoured);
  const marked = (name: Colour) => (text: string) =>
    colours[name]('|')
      .replaceAll('\u001b[', `\u001b[${MARK};`)
      .replace('|', () => text);
  return {
    green: marked('green'),
    yellow: marked('yellow'),
    red: marked('red'),
    dim: marked('dim'),
    bold: marked('bold'),
  };
}

/**
 * Text for a stream. Bodies, answers and ids are foreign text: on a screen, all control characters but our colours are
 * escaped. In a pipe the text stays as it is, but for our colours.
 */
export function forScreen(stream: Screen, text: string): string {
  const safe = stream.isTTY === true ? text.replaceAll(STEERINGS, escaped) : text;
  return safe.replaceAll(COLOURS, '\u001b[$1m');
}

/** Foreign text within a line, also in a pipe: a line break would be another line, a tab another column. */
export const inLine = (text: string) => text.replaceAll(BREAKS, escaped);

export function printJson(terminal: Terminal, value: object): void {
  print(terminal, JSON.stringify(value));
}

/** Print a failure for people on stderr, and with `--json` also as a JSON line that can't be mistaken for a result. */
export function printError(terminal: Terminal, error: PrintedFailure, json = false): void {
  const { code, message } = error;
  if (json) printJson(terminal, { error });
  note(terminal, `${painter(hasColours(terminal.stderr)).red(code)}: ${message}`);
}

/** A failure as scripts read it. */
interface PrintedFailure {
  readonly code: string;
  readonly message: string;
  /** The audience or trait that it is about, if any. */
  readonly key?: string;
  /** The place in the configuration that it is about, if any. */
  readonly file?: string | null;
  readonly line?: number | null;
}

/** `1 run`, `2 runs`. */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}

export function note({ stderr }: Terminal, text: string): void {
  stderr.write(`${forScreen(stderr, text)}\n`);
}

export function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
