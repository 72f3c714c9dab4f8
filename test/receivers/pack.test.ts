import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { kinds } from '../../receivers/bodies.ts';
import { bin, clean, root, typeErrors } from './helpers/clean.ts';
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

t.test('the README needs no file that is not in the package', async (t) => {
  const text = (await readFile(join(root, 'receivers', 'README.md'), 'utf8')).replaceAll(/https:\S+/g, '');
  t.notMatch(text, /docs\/|repository/);
});

t.test('the package works when it is packed and installed in an empty app', async (t) => {
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

  t.test('and every export answers as it should', async (t) => {
    const result = await runPacked(dir);
    t.same(result.wrong, []);
    t.same(result.twice, [], 'one class of each name, also for require');
    t.same(result.kinds, [...kinds].sort());
    t.equal(result.status, 200);
  });

  t.test('and a copy of the example of deletions runs with it', async (t) => {
    const copy = join(dir, 'deletion-automation');
    await cp(join(root, 'examples/deletion-automation'), copy, { recursive: true });
    const { stdout } = await clean(process.execPath, ['demo.ts'], copy);
    t.match(stdout, /^confirmed: \{\s+user_id: 'u2',/m);
  });

  t.test('and its types are found, and right also without skipLibCheck', async (t) => {
    await writeFile(join(dir, 'typed.ts'), typed);
    t.equal(await typeErrors(dir, 'typed.ts'), '');
  });

  t.test('and publint and are-the-types-wrong find nothing', async (t) => {
    await t.resolves(clean(bin('publint'), ['--strict', tarball]));
    await t.resolves(clean(bin('attw'), [tarball, '--profile', 'node16']));
  });
});
