import { cp, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { kinds } from '../../receivers/bodies.ts';
import { bin, clean, oldTypeErrors, root, typeErrors } from './helpers/clean.ts';
import { installPacked, runPacked } from './helpers/packed.ts';

const noNetwork = /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ENOTCACHED|ETIMEDOUT/;

const typed = `
import Fastify from 'fastify';
import { receiver } from '@rollcall/receivers';
import { createReceiver } from '@rollcall/receivers/handle';
Fastify().register(receiver, { secret: 's', on: { track: ({ event }) => event.length } });
// @ts-expect-error a wrong name
createReceiver({ secret: 's', on: { trak() {} } });
`;

t.test('names no file in the README that is not in the package', async (t) => {
  const text = (await readFile(join(root, 'receivers', 'README.md'), 'utf8')).replaceAll(/https:\S+/g, '');
  t.notMatch(text, /docs\/|repository/);
});

t.test('works when it is packed and installed in an empty app', async (t) => {
  // Outside the checkout, whose node_modules would be found otherwise.
  const dir = await mkdtemp(join(tmpdir(), 'receivers-'));
  t.after(() => rm(dir, { recursive: true }));
  let tarball: string;
  try {
    tarball = await installPacked(dir);
  } catch (error) {
    const { stderr } = error as { stderr?: string };
    if (!noNetwork.test(stderr ?? '')) throw error;
    return t.pass('skipped: npm has no network', { skip: 'npm has no network' });
  }

  t.test('answers correctly from every export', async (t) => {
    const result = await runPacked(dir);
    t.same(result.wrong, []);
    t.same(result.twice, [], 'one class of each name, also for require');
    t.same(result.kinds, [...kinds].sort());
    t.equal(result.status, 200);
  });

  t.test('runs a copy of the example of deletions', async (t) => {
    const copy = join(dir, 'deletion-automation');
    await cp(join(root, 'examples/deletion-automation'), copy, { recursive: true });
    const { stdout } = await clean(process.execPath, ['demo.ts'], copy);
    t.match(stdout, /^confirmed: \{\s+user_id: 'u2',/m);
  });

  t.test('finds correct types, also without skipLibCheck', async (t) => {
    await writeFile(join(dir, 'typed.ts'), typed);
    t.equal(await typeErrors(dir, 'typed.ts'), '');
  });

  t.test('finds the types of every entry if TypeScript does not know exports', async (t) => {
    const { exports } = JSON.parse(await readFile(join(root, 'receivers', 'package.json'), 'utf8'));
    const entries = Object.keys(exports).filter((name) => name.startsWith('./') && !/json|postgres/.test(name));
    const imports = entries.map((name, index) => `export * as e${index} from '@rollcall/receivers/${name.slice(2)}';`);
    await writeFile(join(dir, 'old.ts'), [typed, ...imports].join('\n'));
    t.equal(await oldTypeErrors(dir, 'old.ts'), '');
  });

  t.test('is about as large as the documentation says', async (t) => {
    const text = await readFile(join(root, 'docs', 'receivers.md'), 'utf8');
    const [, packed, unpacked] = /about (\d+) kB to\s+download and (\d+) kB unpacked/.exec(text)?.map(Number) ?? [];
    const home = join(dir, 'node_modules', '@rollcall', 'receivers');
    const sizes = (await readdir(home, { recursive: true, withFileTypes: true }))
      .filter((entry) => entry.isFile())
      .map(async ({ parentPath, name }) => (await stat(join(parentPath, name))).size);
    const sum = (await Promise.all(sizes)).reduce((one, other) => one + other, 0);
    for (const [said = 0, size] of [
      [packed, (await stat(tarball)).size],
      [unpacked, sum],
    ] as const) {
      t.ok(Math.abs(size / 1000 - said) <= said * 0.05, `${size} bytes, said to be ${said} kB`);
    }
  });

  t.test('passes publint and are-the-types-wrong', async (t) => {
    await t.resolves(clean(bin('publint'), ['--strict', tarball]));
    await t.resolves(clean(bin('attw'), [tarball, '--profile', 'node16']));
  });
});
