import type { Terminal } from './output/terminal.ts';

export const EXIT = { done: 0, failed: 1, usage: 2, held: 3, undelivered: 4 } as const;

export interface CliContext {
  readonly terminal: Terminal;
  /** Sets the exit code of an outcome that is not an error. The default is 0. */
  readonly setExitCode: (code: number) => void;
}
