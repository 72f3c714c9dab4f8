import { Writable } from 'node:stream';
import { runProgram } from '../../src/cli/program.ts';
import { answer } from './part.ts';

export interface CommandQuestion {
  readonly args: readonly string[];
}

/** The command's exit code and output. */
export interface CommandAnswer {
  readonly code: number;
  readonly out: string;
  readonly errors: string;
}

/** Runs commands one after the other, each as a new process would, but without loading the code again. */
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
