import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import { root } from '../receivers/helpers/clean.ts';
import { nodeOf, packAll } from './packages.ts';
import { Reader } from './reader.ts';

/*
 * `npm run test:newcomer`: someone who has the tarballs and an empty folder, and does what the README and the guide say. The
 * oldest and the newest Node are taken from npm.
 */
t.setTimeout(1_800_000);
const VERSIONS = ['22', '24', '26'];
/** Not one word of it may be a warning. */
const WARNING = /\w+Warning: .*/;

// Outside the checkout, whose packages would be found otherwise.
const home = await mkdtemp(join(tmpdir(), 'rollcall-newcomer-'));
t.teardown(() => rm(home, { recursive: true, force: true }));
const tarballs = await packAll(join(home, 'tarballs'));
const page = (path: string) => readFile(join(root, path), 'utf8');
const first = await page('docs/guide/1-first-ten-minutes.md');

async function newReader(t: Test, name: string, node: string): Promise<Reader> {
  const folder = join(home, name);
  await mkdir(folder);
  await writeFile(join(folder, 'package.json'), '{"private":true}');
  const reader = new Reader(folder, node, tarballs);
  t.teardown(() => reader.end());
  return reader;
}

for (const version of VERSIONS) {
  await t.test(`the first ten minutes, with Node ${version}`, async (t) => {
    const node = await nodeOf(version, join(home, `node-${version}`));
    if (node instanceof Error) return t.pass('skipped', { skip: `npm has no Node ${version}: ${node.message}` });
    const reader = await newReader(t, `first-${version}`, node);
    const begun = performance.now();
    await reader.read(t, first);
    t.comment(`${Math.round((performance.now() - begun) / 1_000)} s with Node ${version}`);
    t.notMatch(reader.said, WARNING);
  });
}

t.test('an older Node gets one line', async (t) => {
  const node = await nodeOf('20', join(home, 'node-20'));
  if (node instanceof Error) return t.pass('skipped', { skip: `npm has no Node 20: ${node.message}` });
  const folder = join(home, 'first-24');
  const reader = new Reader(folder, node, tarballs);
  await reader.type(t, {
    command: 'npx rollcall start || true',
    output: ['Rollcall needs Node 22.20 or newer. This is Node 20….'],
  });
});

t.test('the whole guide, page by page', async (t) => {
  const reader = await newReader(t, 'guide', dirname(process.execPath));
  const pages = (await readdir(join(root, 'docs/guide'))).filter((name) => /^\d/.test(name)).sort();
  for (const name of pages) {
    await t.test(name, async (t) => {
      await reader.read(t, await page(`docs/guide/${name}`));
    });
  }
  t.notMatch(reader.said, WARNING);
});

t.test('the README', async (t) => {
  const reader = await newReader(t, 'readme', dirname(process.execPath));
  await reader.read(t, await page('README.md'));
  t.notMatch(reader.said, WARNING);
});

t.test('the example of deletions, copied', async (t) => {
  const folder = join(root, 'examples/deletion-automation');
  const reader = await newReader(t, 'deletions', dirname(process.execPath));
  await reader.copy(folder);
  await reader.read(t, await readFile(join(folder, 'README.md'), 'utf8'));
  t.notMatch(reader.said, WARNING);
});
