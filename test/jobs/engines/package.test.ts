import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { bin, clean, root, typeErrors } from '../../receivers/helpers/clean.ts';

/** Code of the author of an engine. */
const APP = `
import { createSqlEngine } from 'rollcall/engine';
import { engineCases } from 'rollcall/engine-contract';
console.log(typeof createSqlEngine, engineCases.length > 10);
`;
const TYPED = `
import { createSqlEngine, type SqlDialect, type Engine, type SqlSession } from 'rollcall/engine';
import { type EngineFixture, engineCases } from 'rollcall/engine-contract';
export function open(dialect: SqlDialect, session: SqlSession): Engine {
  return createSqlEngine({ dialect, session, writable: true, tuned: { plan: () => [], members: () => [], history: () => [] }, scrub: async () => {} });
}
export async function check(open: () => Promise<EngineFixture>): Promise<void> {
  for (const { name, run } of engineCases) await run(open).catch((error) => console.error(name.length, error));
}
// @ts-expect-error a wrong name
createSqlEngine({ dialects: [] });
`;

t.test('works as a published package for engine authors', async (t) => {
  // Outside the checkout, whose node_modules would be found otherwise.
  const dir = await mkdtemp(join(tmpdir(), 'rollcall-package-'));
  t.after(() => rm(dir, { recursive: true }));
  const installed = join(dir, 'node_modules', 'rollcall');
  await mkdir(installed, { recursive: true });
  // `npm run check` looks for mistakes.
  await clean(bin('tsc'), ['-p', 'tsconfig.build.json', '--noCheck', '--outDir', join(installed, 'dist')]);
  // Without the scripts, which would build it again whenever it is packed.
  const { scripts: _, workspaces: __, ...manifest } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
  await writeFile(join(installed, 'package.json'), JSON.stringify(manifest));
  for (const file of ['README.md', 'LICENSE', 'CHANGELOG.md']) await cp(join(root, file), join(installed, file));
  await writeFile(join(dir, 'package.json'), '{"private":true,"type":"module"}');

  t.test('runs without any other package', async (t) => {
    await writeFile(join(dir, 'app.js'), APP);
    t.equal((await clean(process.execPath, ['app.js'], dir)).stdout, 'function true\n');
  });

  t.test('has correct types, also without skipLibCheck', async (t) => {
    await writeFile(join(dir, 'typed.ts'), TYPED);
    t.equal(await typeErrors(dir, 'typed.ts'), '');
  });

  t.test('passes publint and are-the-types-wrong', async (t) => {
    const [{ filename }] = JSON.parse((await clean('npm', ['pack', '--json'], installed)).stdout);
    await t.resolves(clean(bin('publint'), ['--strict', filename], installed));
    await t.resolves(clean(bin('attw'), [filename, '--profile', 'esm-only'], installed));
  });
});
