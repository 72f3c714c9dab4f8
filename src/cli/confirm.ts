import { createInterface } from 'node:readline/promises';
import { RollcallError } from '../errors.ts';
import type { Terminal } from './terminal.ts';

/**
 * Asks before something that can't be taken back; without a terminal it wants `--yes`.
 *
 * @throws RollcallError `bad_usage` where nobody can be asked
 */
export async function confirm({ stdin, stderr, signal }: Terminal, question: string, yes = false): Promise<boolean> {
  if (yes) return true;
  if (!stdin?.isTTY || !stderr.isTTY) {
    throw new RollcallError('bad_usage', `${question} There is no terminal to ask at: add --yes.`);
  }
  const lines = createInterface({ input: stdin, output: stderr });
  try {
    return /^y(es)?$/i.test((await lines.question(`${question} [y/N] `, { signal })).trim());
  } finally {
    lines.close();
  }
}
