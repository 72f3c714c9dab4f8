import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import vm from 'node:vm';

/**
 * Runs one of the programs that stand together in `programs.cjs` (`bundle-programs.ts`), with the code that is in
 * `programs.code`: that of all functions which were called in the runs that wrote it. Node writes its cache before anything is
 * called, so that each start compiles most functions again.
 */
export async function runProgram(folder: string, program: string): Promise<void> {
  const filename = join(folder, 'programs.cjs');
  const code = join(folder, 'programs.code');
  const source = readFileSync(filename, 'latin1');
  const script = new vm.Script(`(function (module, require, resolveImport, importModule) {${source}\n})`, {
    filename,
    ...(existsSync(code) ? { cachedData: readFileSync(code) } : {}),
  });
  if (process.env['WRITE_CODE']) process.once('exit', () => writeFileSync(code, script.createCachedData()));
  const module = { exports: {} as Record<string, () => Promise<unknown>> };
  script.runInThisContext()(module, createRequire(filename), import.meta.resolve, (name: string) => import(name));
  const run = module.exports[program];
  if (!run) throw new Error(`${filename} has no program ${program}`);
  await run();
}
