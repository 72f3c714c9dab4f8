import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';

/** Null if system calls of a program can be made to fail; otherwise why not. */
export const whyNoFaults = (() => {
  const { status, stderr } = spawnSync('strace', ['-o', '/dev/null', 'true'], { encoding: 'utf8' });
  return status === 0 ? null : `strace can't be used here: ${stderr ?? 'it is not installed'}`;
})();

/** A fault of the file system: the calls that fail, and how. */
export interface FileFault {
  readonly calls: string;
  readonly error: 'EIO' | 'EMFILE' | 'EROFS' | 'ENOSPC';
  /** Only calls on this file fail. */
  readonly path?: string;
}

/** Makes system calls of a running process fail until `end`, as a broken disk does. */
export async function injectFault(pid: number, { calls, error, path }: FileFault) {
  const child = spawn(
    'strace',
    ['-f', '-p', String(pid), '-o', '/dev/null', '-e', `trace=${calls}`]
      .concat(path === undefined ? [] : ['-P', path])
      .concat('-e', `inject=${calls}:error=${error}`),
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  const ended = Promise.all([text(child.stderr), once(child, 'close')]);
  await Promise.race([
    once(child.stderr, 'data'),
    ended.then(([said]) => {
      throw new Error(`strace ended: ${said}`);
    }),
  ]);
  return {
    async end() {
      child.kill('SIGINT');
      await ended;
    },
  };
}
