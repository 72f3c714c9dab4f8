import { createInterface } from 'node:readline/promises';
import { RollcallError } from '../errors.ts';
import type { Terminal } from './terminal.ts';

/** Whether somebody is there to answer. */
export function canAsk({ stdin, stderr }: Terminal): boolean {
  return stdin?.isTTY === true && stderr.isTTY === true;
}

/**
 * Asks before something that can't be taken back; without a terminal it wants `--yes`.
 *
 * @throws RollcallError `bad_usage` where nobody can be asked
 */
export async function confirm(terminal: Terminal, question: string, yes = false): Promise<boolean> {
  const { stdin, stderr, signal } = terminal;
  if (yes) return true;
  if (!stdin || !canAsk(terminal)) {
    throw new RollcallError('bad_usage', `${question} There is no terminal to ask at: add --yes.`);
  }
  const lines = createInterface({ input: stdin, output: stderr });
  try {
    return /^y(es)?$/i.test((await lines.question(`${question} [y/N] `, { signal })).trim());
  } finally {
    lines.close();
  }
}
