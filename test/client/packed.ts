import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Test } from 'tap';
import { clean } from '../receivers/helpers/clean.ts';
import { folder } from './folder.ts';

export const root = path.join(import.meta.dirname, '../..');
const source = path.join(root, 'src/client');
const bin = (name: string) => path.join(root, 'node_modules/.bin', name);

/** What the package has in its `dist`, for all tests of this process. */
let dist: Promise<string> | null = null;

async function build(): Promise<string> {
  const built = mkdtempSync(path.join(tmpdir(), 'rollcall-client-dist-'));
  process.once('exit', () => rmSync(built, { recursive: true, force: true }));
  await clean(bin('tsc'), ['-p', 'src/client/tsconfig.build.json', '--singleThreaded', '--outDir', built]);
  return built;
}

/** An empty app with the package as it is published in its node_modules. */
export async function packed(t: Test): Promise<string> {
  const app = folder(t);
  const home = path.join(app, 'node_modules/@rollcall/client');
  mkdirSync(home, { recursive: true });
  dist ??= build();
  cpSync(await dist, path.join(home, 'dist'), { recursive: true });
  for (const file of ['package.json', 'README.md', 'LICENSE', 'require.cjs', 'require.d.cts'])
    cpSync(path.join(source, file), path.join(home, file));
  for (const name of ['debug', 'ms']) {
    symlinkSync(path.join(root, 'node_modules', name), path.join(app, 'node_modules', name));
  }
  writeFileSync(path.join(app, 'package.json'), '{}');
  return app;
}

/** The compiler of today, and the oldest one that is at hand: are-the-types-wrong brings it. */
export const compilers = {
  today: [bin('tsc'), '--singleThreaded'],
  oldest: [
    path.join(
      path.dirname(
        createRequire(createRequire(import.meta.url).resolve('@arethetypeswrong/core')).resolve('typescript'),
      ),
      '../bin/tsc',
    ),
  ],
};

/** The compiler's output for programs in the app; nothing if they are right. The types of packages are checked too. */
export async function compile(
  compiler: readonly string[],
  app: string,
  programs: Readonly<Record<string, string>>,
  options: object,
): Promise<string> {
  for (const [file, text] of Object.entries(programs)) writeFileSync(path.join(app, file), text);
  const strict = { noEmit: true, strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true };
  // To check the compiler's own types would take longer than all else.
  const compilerOptions = { ...strict, skipDefaultLibCheck: true, target: 'es2022', ...options };
  const config = { compilerOptions, files: Object.keys(programs) };
  writeFileSync(path.join(app, 'tsconfig.json'), JSON.stringify(config));
  return clean(process.execPath, [...compiler, '-p', '.'], app).then(
    ({ stdout }) => stdout,
    (error: { stdout: string }) => error.stdout,
  );
}

/** Compiler options for the types of Node. */
export const nodeTypes = { types: ['node'], typeRoots: [path.join(root, 'node_modules/@types')] };
