import { existsSync, readFileSync } from 'node:fs';
import { Session } from 'node:inspector/promises';
import { dirname, join, relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import Fastify from 'fastify';
import t from 'tap';
import { receiver, sign } from '../receivers/index.ts';
import { webhook } from '../receivers/testing.ts';

const ROOT = resolve(import.meta.dirname, '..');
const text = readFileSync(join(ROOT, 'docs/architecture.md'), 'utf8');
const [, part = ''] = text.split('\n## Six walks\n');

const walks = part
  .split('\n### ')
  .slice(1)
  .map((section) => ({
    name: section.split('\n', 1)[0] ?? '',
    named: [...section.matchAll(/`([^`]+\.ts)`/g)].map(([, file = '']) => file),
    files: [...section.matchAll(/^\d+\. `([^`]+)`/gm)].map(([, file = '']) => file),
  }));

function importsOf(file: string): readonly string[] {
  const code = readFileSync(join(ROOT, file), 'utf8');
  const named = [...code.matchAll(/(?:from|import|new URL)\s*\(?\s*'(\.[^']+)'/g)].map(([, name = '']) => name);
  return named.map((name) => relative(ROOT, resolve(ROOT, dirname(file), name)));
}

/** Whether one of the files knows the other, itself or through one file in between. */
function areNeighbours(a: string, b: string): boolean {
  const reaches = (from: string, to: string) => {
    const direct = importsOf(from);
    return direct.includes(to) || direct.some((file) => existsSync(join(ROOT, file)) && importsOf(file).includes(to));
  };
  return reaches(a, b) || reaches(b, a);
}

t.test('what the map says where to change is in the file that it names', async (t) => {
  const [, table = ''] = /^## Where to change …\n(.*?)^## /ms.exec(text) ?? [];
  const rows = [...table.matchAll(/^\| .+ \| `([^`]+)` \| `(\w+)` \|$/gm)];
  t.ok(rows.length > 15);
  for (const [, file = '', name = ''] of rows) {
    const code = existsSync(join(ROOT, file)) ? readFileSync(join(ROOT, file), 'utf8') : '';
    t.match(code, new RegExp(`(function|class|const) ${name}\\b`), `${file} has ${name}`);
  }
});

t.test('there are six walks, of the lengths that a reader can hold', async (t) => {
  t.equal(walks.length, 6);
  for (const { name, files } of walks) t.ok(files.length >= 3 && files.length <= 15, `${name}: ${files.length} files`);
  const webhook = walks.find(({ name }) => name.startsWith('A webhook'));
  t.ok(webhook && webhook.files.length <= 8);
});

for (const { name, files } of walks) {
  t.test(`each file of the walk is there, and joined to one before it: ${name}`, async (t) => {
    t.same(
      files.filter((file) => !existsSync(join(ROOT, file))),
      [],
    );
    for (const [index, file] of files.entries()) {
      if (index === 0 || !existsSync(join(ROOT, file))) continue;
      t.ok(
        files.slice(0, index).some((before) => existsSync(join(ROOT, before)) && areNeighbours(before, file)),
        `${file} is joined to a file before it`,
      );
    }
  });
}

/** The files of a folder whose functions run while `run` does. */
async function filesThatRun(folder: string, run: () => Promise<unknown>): Promise<string[]> {
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true });
  await session.post('Profiler.takePreciseCoverage');
  await run();
  const { result } = await session.post('Profiler.takePreciseCoverage');
  session.disconnect();
  const root = pathToFileURL(`${ROOT}/`).href;
  return result
    .filter(({ url, functions }) => {
      return url.startsWith(`${root}${folder}/`) && functions.some(({ ranges }) => (ranges[0]?.count ?? 0) > 0);
    })
    .map(({ url }) => url.slice(root.length));
}

t.test('the walk of a webhook names each file of the kit that runs for it, and no other', async (t) => {
  const app = Fastify();
  t.teardown(() => app.close());
  const entered: string[] = [];
  const handlers = { entered: async ({ userId }: { userId: string }) => void entered.push(userId) };
  app.register(receiver, { secret: 's', on: { audience: { big_spenders: handlers } } });
  await app.ready();
  const requests = ['one', 'two'].map((userId) => {
    const personas = {
      computation_class: 'audience',
      computation_key: 'big_spenders',
      computation_id: 'c1',
      sequence: 3,
    };
    const change = webhook('identify', { userId, traits: { big_spenders: true }, context: { personas } });
    const payload = JSON.stringify(change);
    const headers = { 'content-type': 'application/json', 'x-signature': sign(payload, 's') };
    return { method: 'POST', url: '/', payload, headers } as const;
  });
  const [first, second] = requests as [(typeof requests)[0], (typeof requests)[0]];
  // The first one also runs code that prepares for all.
  await app.inject(first);
  const ran = await filesThatRun('receivers', () => app.inject(second));
  t.same(entered, ['one', 'two']);
  const walk = walks.find(({ name }) => name.startsWith('A webhook'));
  t.same(ran.sort(), walk?.named.sort());
});
