import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import t from 'tap';

const ROOT = resolve(import.meta.dirname, '..');
const text = readFileSync(join(ROOT, 'docs/architecture.md'), 'utf8');
const [, part = ''] = text.split('\n## Five walks\n');

const walks = part
  .split('\n### ')
  .slice(1)
  .map((section) => ({
    name: section.split('\n', 1)[0] ?? '',
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

t.test('there are five walks, of the lengths that a reader can hold', async (t) => {
  t.equal(walks.length, 5);
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
