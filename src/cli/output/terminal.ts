import type { Readable, Writable } from 'node:stream';
import pc from 'picocolors';

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

/** True on a terminal with colours, unless `NO_COLOR` is set. */
export const hasColours = (stream: Screen) => stream.isTTY === true && stream.hasColors?.() !== false;

export function print({ stdout }: Terminal, text: string): void {
  stdout.write(`${forScreen(stdout, text)}\n`);
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
const STEERING = /(?!\u001b\[\d{1,2}m)[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

/**
 * Text for a stream. Bodies, answers and ids are foreign text: on a screen, control characters other than colours are
 * escaped. In a pipe the text stays as it is.
 */
export function forScreen(stream: Screen, text: string): string {
  if (stream.isTTY !== true) return text;
  return text.replaceAll(STEERING, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

export function printJson(terminal: Terminal, value: object): void {
  print(terminal, JSON.stringify(value));
}

/** Print a failure for people on stderr, and with `--json` also as a JSON line that can't be mistaken for a result. */
export function printError(terminal: Terminal, error: PrintedFailure, json = false): void {
  const { code, message } = error;
  if (json) printJson(terminal, { error });
  note(terminal, `${pc.createColors(hasColours(terminal.stderr)).red(code)}: ${message}`);
}

/** A failure as scripts read it. */
interface PrintedFailure {
  readonly code: string;
  readonly message: string;
  /** The audience or trait that it is about, if any. */
  readonly key?: string;
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
