import { Writable } from 'node:stream';
import { runProgram } from '../../src/cli/program.ts';
import { answer } from './part.ts';

export interface CommandQuestion {
  readonly args: readonly string[];
}

/** How the command ended, and what it wrote. */
export interface CommandAnswer {
  readonly code: number;
  readonly out: string;
  readonly errors: string;
}

/** Runs commands one after the other, each as a new process would, but for loading the code anew. */
answer<CommandQuestion, CommandAnswer>(async ({ args }) => {
  const texts = { out: '', errors: '' };
  const into = (name: keyof typeof texts) =>
    new Writable({
      write(chunk, _encoding, done) {
        texts[name] += String(chunk);
        done();
      },
    });
  const terminal = { stdout: into('out'), stderr: into('errors'), signal: new AbortController().signal };
  return { code: await runProgram(args, terminal), ...texts };
});
