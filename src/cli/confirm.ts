import { createInterface } from 'node:readline/promises';
import { Readable } from 'node:stream';
import { RollcallError } from '../kernel/errors.ts';
import type { Terminal } from './output/terminal.ts';

/**
 * Ask before something that can't be undone. Without a terminal, `--yes` is required.
 *
 * @throws RollcallError `bad_usage` if nobody can be asked
 */
export async function confirm(terminal: Terminal, question: string, yes = false): Promise<boolean> {
  if (yes) return true;
  if (!canAsk(terminal)) {
    throw new RollcallError('bad_usage', `${question} There is no terminal: add --yes.`);
  }
  const [answer = false] = await ask(terminal, [`${question} Go on?`], false);
  return answer;
}

export function canAsk({ stdin, stderr }: Terminal): boolean {
  return stdin?.isTTY === true && stderr.isTTY === true;
}

/**
 * Ask one question after the other. An empty answer is the default, and one that is neither yes nor no is asked again. Ctrl-D
 * means no if that is the default. Otherwise it interrupts.
 *
 * @throws RollcallError `stopping` if the person interrupts
 */
export async function ask(
  { stdin, stderr, signal }: Terminal,
  questions: readonly string[],
  byDefault: boolean,
): Promise<readonly boolean[]> {
  const lines = createInterface({ input: stdin ?? Readable.from([]), output: stderr, signal });
  const answers: boolean[] = [];
  let interrupted = false;
  // While readline reads, Ctrl-C is a key, not a signal.
  lines.once('SIGINT', () => {
    interrupted = true;
    lines.close();
  });
  try {
    // Lines typed ahead answer later questions.
    const typed = lines[Symbol.asyncIterator]();
    while (answers.length < questions.length) {
      stderr.write(`${questions[answers.length]} ${byDefault ? '[Y/n]' : '[y/N]'} `);
      const { value, done } = await typed.next();
      if (interrupted || (done && byDefault)) throw new RollcallError('stopping', 'Interrupted.');
      const answer = understood(done ? '' : value.trim(), byDefault);
      if (answer === null) stderr.write('Please answer y or n.\n');
      else answers.push(answer);
    }
    signal.throwIfAborted();
    return answers;
  } finally {
    lines.close();
  }
}

function understood(answer: string, byDefault: boolean): boolean | null {
  if (answer === '') return byDefault;
  if (/^y(es)?$/i.test(answer)) return true;
  return /^no?$/i.test(answer) ? false : null;
}
