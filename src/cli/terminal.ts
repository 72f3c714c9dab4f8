import type { Readable, Writable } from 'node:stream';
import pc from 'picocolors';

/** The terminal behind a stream. */
interface Screen {
  readonly isTTY?: boolean;
  hasColors?(): boolean;
}

/** Where a command reads and writes; the process's own streams outside tests. */
export interface Terminal {
  /** Results. */
  readonly stdout: Writable & Screen & { readonly columns?: number };
  /** Logs, progress and mistakes. */
  readonly stderr: Writable & Screen;
  /** Answers of a person; absent where nobody can be asked. */
  readonly stdin?: Readable & { readonly isTTY?: boolean };
  /** Aborts on the first SIGINT or SIGTERM. */
  readonly signal: AbortSignal;
}

/** Whether people watch, on a terminal with colours, and have not asked for none (`NO_COLOR`). */
export const hasColours = (stream: Screen) => stream.isTTY === true && stream.hasColors?.() !== false;

export function print(terminal: Terminal, text: string): void {
  terminal.stdout.write(`${text}\n`);
}

/** One JSON object per line, for scripts. */
export function printJson(terminal: Terminal, value: object): void {
  print(terminal, JSON.stringify(value));
}

/** Prints a failure: for people on stderr, with `--json` also as a line of its own, which no result looks like. */
export function printError(terminal: Terminal, error: Failure, json = false): void {
  const { code, message } = error;
  if (json) printJson(terminal, { error });
  note(terminal, `${pc.createColors(hasColours(terminal.stderr)).red(code)}: ${message}`);
}

/** A failure as scripts read it. */
interface Failure {
  readonly code: string;
  readonly message: string;
  /** Which audience or trait it is about, where it is about one. */
  readonly key?: string;
}

/** `1 run`, `2 runs`. */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}

/** Prints a note for people, beside the results. */
export function note(terminal: Terminal, text: string): void {
  terminal.stderr.write(`${text}\n`);
}

/** Resolves once the signal aborts. */
export function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
