import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Test } from 'tap';

/** The repository, whose packages must be built. */
export const ROOT = resolve(import.meta.dirname, '../..');

/** As far as it is used here; the package is there only once `npm run test:workerd` has installed it. */
interface Worker {
  ready: Promise<URL>;
  dispose(): Promise<void>;
}
const { Miniflare } = (await import(`${import.meta.dirname}/node_modules/miniflare/dist/src/index.js`)) as {
  Miniflare: new (options: object) => Worker;
};

export interface WorkerOptions {
  bindings?: Record<string, string>;
  /** The day whose rules the runtime keeps. */
  compatibilityDate?: string;
}

/** Runs a module as a Worker, and collects what it prints, some of which comes after the answer to whoever caused it. */
export async function run(
  t: Test,
  code: string,
  options: WorkerOptions = {},
): Promise<{ url: string; said: string[] }> {
  const folder = t.testdir({ 'worker.ts': code });
  const bundle = join(folder, 'bundle.js');
  const flags = ['--bundle', '--format=esm', '--conditions=workerd,worker,browser', '--log-level=error'];
  execFileSync(join(ROOT, 'node_modules/.bin/esbuild'), [join(folder, 'worker.ts'), ...flags, `--outfile=${bundle}`]);
  const said: string[] = [];
  const worker = new Miniflare({
    modules: [{ type: 'ESModule', path: 'bundle.js', contents: readFileSync(bundle, 'utf8') }],
    ...{ compatibilityDate: '2026-06-01', ...options },
    handleRuntimeStdio(...streams: NodeJS.ReadableStream[]) {
      for (const stream of streams) stream.setEncoding('utf8').on('data', (text: string) => said.push(text));
    },
  });
  t.teardown(() => worker.dispose());
  return { url: (await worker.ready).href, said };
}
