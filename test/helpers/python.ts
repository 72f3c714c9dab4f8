import { type ExecFileException, execFile } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const MOST_OUTPUT = 64 * 2 ** 20;

export interface PythonTools {
  /** Runs a program of the packages. Resolves to its exit code and output. */
  run(
    program: string,
    args: readonly string[],
    options: { readonly cwd: string; readonly env?: NodeJS.ProcessEnv },
  ): Promise<{ readonly code: number; readonly output: string }>;
}

/**
 * Packages of PyPI in an environment of their own, which is kept for the next time; or the reason why there are none.
 *
 * @param name - of the environment's folder in the one for temporary files
 */
export async function pythonTools(name: string, packages: readonly string[]): Promise<PythonTools | string> {
  const folder = join(tmpdir(), `rollcall-python-${name}`);
  const bin = join(folder, 'bin');
  try {
    await run('python3', ['-m', 'venv', folder]);
    await run(join(bin, 'pip'), ['install', '--quiet', '--disable-pip-version-check', ...packages], {
      maxBuffer: MOST_OUTPUT,
    });
  } catch (error) {
    const { code, stderr = '' } = error as ExecFileException;
    if (code === 'ENOENT') return 'python3 is not on this machine';
    return `PyPI or venv gave no ${packages.join(', ')}: ${stderr.trim().split('\n').at(-1)}`;
  }
  return {
    async run(program, args, { cwd, env }) {
      const options = { cwd, env: { ...process.env, ...env }, maxBuffer: MOST_OUTPUT };
      const { code = 0, stdout, stderr } = await run(join(bin, program), [...args], options).catch((error) => error);
      return { code, output: `${stdout}${stderr}` };
    },
  };
}
