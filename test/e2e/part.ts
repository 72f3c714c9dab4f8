import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { Test } from 'tap';
import { type Program, program } from '../helpers/programs.ts';

/** A process of its own, which answers one question after the other. */
export interface Part<Question, Answer> {
  ask(question: Question): Promise<Answer>;
}

/** Without the test runner's hooks into every promise, which would cost more than the work itself. */
export function startPart<Question extends object, Answer>(t: Test, file: Program): Part<Question, Answer> {
  const env = { ...process.env, NODE_OPTIONS: '' };
  const child = fork(program(file), [], { execArgv: [], env, serialization: 'advanced' });
  t.teardown(() => child.kill('SIGKILL'));
  const over = once(child, 'exit').then(([code]) => {
    throw new Error(`${file} ended with ${code}.`);
  });
  over.catch(() => {});
  return {
    async ask(question) {
      const answer = once(child, 'message').then(([message]) => message as Answer);
      child.send(question);
      return Promise.race([answer, over]);
    },
  };
}

/** Answers the questions, in the other process. */
export function answer<Question, Answer>(reply: (question: Question) => Answer | Promise<Answer>): void {
  process.on('message', async (question) => process.send?.(await reply(question as Question)));
}
