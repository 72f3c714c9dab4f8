import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import type { Test } from 'tap';
import { clean } from '../receivers/helpers/clean.ts';
import { folder } from './folder.ts';

export const root = path.join(import.meta.dirname, '../..');
const source = path.join(root, 'src/client');
const bin = (name: string) => path.join(root, 'node_modules/.bin', name);

/** An empty app with the package as it is published in its node_modules. */
export async function packed(t: Test): Promise<string> {
  const app = folder(t);
  const home = path.join(app, 'node_modules/@rollcall/client');
  mkdirSync(home, { recursive: true });
  await clean(bin('tsc'), ['-p', 'src/client/tsconfig.build.json', '--outDir', path.join(home, 'dist')]);
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
  today: bin('tsc'),
  oldest: path.join(
    path.dirname(createRequire(createRequire(import.meta.url).resolve('@arethetypeswrong/core')).resolve('typescript')),
    '../bin/tsc',
  ),
};

/** The compiler's output for a program in the app; nothing if it is right. The types of packages are checked too. */
export async function compile(compiler: string, app: string, file: string, text: string, options: object) {
  writeFileSync(path.join(app, file), text);
  const strict = { noEmit: true, strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true };
  const config = { compilerOptions: { ...strict, target: 'es2022', ...options }, files: [file] };
  writeFileSync(path.join(app, 'tsconfig.json'), JSON.stringify(config));
  return clean(process.execPath, [compiler, '-p', '.'], app).then(
    ({ stdout }) => stdout,
    (error: { stdout: string }) => error.stdout,
  );
}

/** Compiler options for the types of Node. */
export const nodeTypes = { types: ['node'], typeRoots: [path.join(root, 'node_modules/@types')] };
