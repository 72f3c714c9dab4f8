import type { Terminal } from './output/terminal.ts';

export const EXIT = { done: 0, failed: 1, usage: 2, held: 3, undelivered: 4 } as const;

/** The context that every command gets. */
export interface CliContext {
  readonly terminal: Terminal;
  /** For outcomes that are no errors; 0 unless set. */
  readonly setExitCode: (code: number) => void;
}
