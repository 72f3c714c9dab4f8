import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Root of the checkout. */
export const root = new URL('../../../', import.meta.url).pathname;

/** Runs a command without the hooks that tap puts into child processes: tsc and npm do not get along with them. */
export const clean = (command: string, args: string[], cwd = root) =>
  run('env', ['-u', 'NODE_OPTIONS', ...UNCOLLECTED, command, ...args], { cwd, maxBuffer: 2 ** 24 });
/** tsc is a program in Go, and ends before its memory is worth collecting. */
const UNCOLLECTED = ['GOGC=off', 'GOMEMLIMIT=1GiB'];

/** A command that a package of the checkout brings. */
export const bin = (name: string) => join(root, 'node_modules', '.bin', name);

// Several threads would each check what all need.
const STRICT = [
  '--singleThreaded',
  '--noEmit',
  '--strict',
  '--skipDefaultLibCheck',
  '--module',
  'nodenext',
  '--target',
  'es2024',
];

const typesOf = ['--types', 'node', '--typeRoots', join(root, 'node_modules', '@types')];

/** What the compiler says of a file of an app that has a package installed, its declarations included; empty if they are right. */
export async function typeErrors(dir: string, file: string): Promise<string> {
  return outputOf(clean(bin('tsc'), [...STRICT, ...typesOf, '--ignoreConfig', file], dir));
}

/** As {@link typeErrors}, by the TypeScript before ours, for a project that knows nothing of `exports`. */
export async function oldTypeErrors(dir: string, file: string): Promise<string> {
  const compiler = join(root, 'test/receivers/typescript-5.9/node_modules/typescript/bin/tsc');
  const old = ['--module', 'commonjs', '--moduleResolution', 'node10', '--target', 'es2022', '--esModuleInterop'];
  const args = [compiler, '--noEmit', '--strict', '--skipLibCheck', ...old, ...typesOf, file];
  return outputOf(clean(process.execPath, args, dir));
}

async function outputOf(compiled: ReturnType<typeof clean>): Promise<string> {
  const { stdout, stderr, code = 0 } = await compiled.catch((error) => error);
  return code === 0 ? stdout : stdout || stderr || `tsc ended with ${code}`;
}
