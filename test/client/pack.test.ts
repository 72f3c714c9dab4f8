import { execFile } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { compile, compilers, packed, root } from './packed.ts';
import { service } from './service.ts';

/** Without the scripts of npm: `prepack` would write what other tests are reading. */
const run = (command: string, args: string[], cwd: string) =>
  promisify(execFile)(command, args, { cwd, env: { ...process.env, npm_config_ignore_scripts: 'true' } });
const bin = (name: string) => path.join(root, 'node_modules/.bin', name);

const app = await packed(t);
const home = path.join(app, 'node_modules/@rollcall/client');
const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', app], home);
const [{ filename, files }] = JSON.parse(stdout) as [{ filename: string; files: { path: string }[] }];

t.test('passes publint and are-the-types-wrong; the web entry is for import only', async (t) => {
  await t.resolves(run(bin('publint'), ['--strict', filename], app));
  await t.resolves(run(bin('attw'), [filename, '--exclude-entrypoints', './web'], app));
  await t.resolves(run(bin('attw'), [filename, '--profile', 'esm-only', '--entrypoints', './web'], app));
});

t.test('packs the licence, the README and both entry points', async (t) => {
  const paths = files.map((file) => file.path);
  for (const file of ['LICENSE', 'README.md', 'require.cjs', 'require.d.cts']) t.ok(paths.includes(file), file);
  t.same(
    paths.filter((file) => file.endsWith('.ts') && !file.endsWith('.d.ts')),
    [],
    'no sources',
  );
});

t.test('runs in bundles of esbuild, as an ES module and as CommonJS', async (t) => {
  const { endpoint, events } = await service(t);
  const source = `import { Client } from '@rollcall/client';
    const client = new Client('KEY', { endpoint: '${endpoint}' });
    client.track({ userId: 'u', event: 'e' });
    client.close();`;
  writeFileSync(path.join(app, 'bundled.mjs'), source);
  for (const [format, outfile] of [
    ['esm', 'bundle.mjs'],
    ['cjs', 'bundle.cjs'],
  ] as const) {
    const options = ['--bundle', '--platform=node', `--format=${format}`, `--outfile=${outfile}`];
    await run(bin('esbuild'), ['bundled.mjs', ...options], app);
    await run(process.execPath, [outfile], app);
  }
  t.equal(events().length, 2);
});

t.test('gives the same classes to import and require', async (t) => {
  const program = `
    import { createRequire } from 'node:module';
    const imported = await import('@rollcall/client');
    const required = createRequire(import.meta.url)('@rollcall/client');
    const names = (all) => Object.keys(all).filter((name) => name !== '__esModule' && name !== 'module.exports').sort();
    console.log(JSON.stringify([names(imported), names(required), names(imported).every((name) => imported[name] === required[name])]));
  `;
  writeFileSync(path.join(app, 'same.mjs'), program);
  const { stdout } = await run(process.execPath, ['same.mjs'], app);
  const [imported, required, isSame] = JSON.parse(stdout);
  t.same(imported, required);
  t.ok(isSame);
  t.ok(imported.includes('Client'));
});

const commonJs = `
import { Client, ClientError, type Loss } from '@rollcall/client';
import client = require('@rollcall/client');

interface Events { 'Order Completed': { total: number } }
const typed: client.Client<Events> = new Client<Events>('KEY');
typed.track({ userId: 'u', event: 'Order Completed', properties: { total: 1 } });
// @ts-expect-error a misspelt event
typed.track({ userId: 'u', event: 'Order Complete', properties: { total: 1 } });
export const isOurs = (error: unknown): error is client.ClientError => error instanceof ClientError;
export const told = ({ messages }: Loss): number => messages.length;
`;

for (const [name, compiler, module] of [
  ['TypeScript 7, node16', compilers.today, 'node16'],
  ['TypeScript 7, nodenext', compilers.today, 'nodenext'],
  ['TypeScript 5.6, node16', compilers.oldest, 'node16'],
] as const) {
  t.test(`has types for a CommonJS file: ${name}`, async (t) => {
    t.equal(
      await compile(
        compiler,
        app,
        { 'program.cts': commonJs },
        {
          module,
          esModuleInterop: true,
          lib: ['es2022', 'dom'],
          types: [],
        },
      ),
      '',
    );
  });
}

t.test('type-checks the browser client with the library of 2020, declarations included', async (t) => {
  const programs = {
    'web.ts': "import { Client } from '@rollcall/client/web';\nexport const client = new Client('KEY');",
  };
  const options = { module: 'esnext', moduleResolution: 'bundler', lib: ['es2020', 'dom'], types: [] };
  for (const compiler of Object.values(compilers)) t.equal(await compile(compiler, app, programs, options), '');
});

t.test('refers in the README only to files of the package', async (t) => {
  const text = readFileSync(path.join(home, 'README.md'), 'utf8');
  const links = [...text.matchAll(/\]\((?!https?:|#)([^)]+)\)/g)].map(([, link = '']) => link);
  for (const link of links) t.ok(existsSync(path.join(home, link)), link);
  t.notMatch(text, /docs\/|repository/);
});
