import type { Readable, Writable } from 'node:stream';

/** Where a command reads and writes; the process's own streams outside tests. */
export interface Terminal {
  /** Results. */
  readonly stdout: Writable & { readonly isTTY?: boolean };
  /** Logs, progress and mistakes. */
  readonly stderr: Writable & { readonly isTTY?: boolean };
  /** Answers of a person; absent where nobody can be asked. */
  readonly stdin?: Readable & { readonly isTTY?: boolean };
  /** Aborts on the first SIGINT or SIGTERM. */
  readonly signal: AbortSignal;
}

export function print(terminal: Terminal, text: string): void {
  terminal.stdout.write(`${text}\n`);
}

/** One JSON object per line, for scripts. */
export function printJson(terminal: Terminal, value: object): void {
  print(terminal, JSON.stringify(value));
}

/** `1 run`, `2 runs`. */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}

/** What people need to know beside the results. */
export function note(terminal: Terminal, text: string): void {
  terminal.stderr.write(`${text}\n`);
}

/** Columns as wide as their widest cell; the last one is left as it is. */
export function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [header, ...rows];
  const widths = header.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  return lines
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** Resolves once the signal aborts. */
export function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
