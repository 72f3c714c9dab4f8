import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Root of the checkout. */
export const root = new URL('../../../', import.meta.url).pathname;

/** Runs a command without the hooks that tap puts into child processes: tsc and npm do not get along with them. */
export const clean = (command: string, args: string[], cwd = root) =>
  run('env', ['-u', 'NODE_OPTIONS', command, ...args], { cwd, maxBuffer: 2 ** 24 });
