import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { folder } from './folder.ts';
import { service } from './service.ts';

const source = (file: string) => new URL(`../../src/client/${file}`, import.meta.url);
const docs = await readFile(new URL('../../docs/client.md', import.meta.url), 'utf8');
/** Packages as users of npm have them. */
const readme = await readFile(source('README.md'), 'utf8');

/** Names of a union of string literals. */
async function members(file: string, type: string): Promise<string[]> {
  const text = await readFile(source(file), 'utf8');
  const union = new RegExp(`type ${type} =([^;]*);`).exec(text)?.[1] ?? '';
  return [...union.matchAll(/\| '(\w+)'/g)].map(([, name = '']) => name);
}

for (const [file, type] of [
  ['errors.ts', 'ClientErrorCode'],
  ['ledger.ts', 'LossReason'],
] as const) {
  t.test(`documents every ${type}`, async (t) => {
    const names = await members(file, type);
    t.ok(names.length > 5);
    for (const name of names) t.match(docs, `\`${name}\``);
    if (type === 'LossReason') for (const name of names) t.match(readme, `\`${name}\``);
  });
}

t.test('documents every option', async (t) => {
  const text = await readFile(source('options.ts'), 'utf8');
  const options = /interface ClientOptions \{(.*?)\n\}/s.exec(text)?.[1] ?? '';
  const names = [...options.matchAll(/^ {2}(\w+)\?:/gm)]
    .map(([, name = '']) => name)
    .filter((name) => name !== 'clock');
  t.ok(names.length > 8);
  for (const name of names) t.match(docs, `\`${name}\``);
  for (const name of names.filter((each) => each !== 'size')) t.match(readme, `\`${name}\``);
});

for (const file of ['docs/client.md', 'src/client/README.md']) {
  t.test(`runs the example of ${file}`, async (t) => {
    const { endpoint, requests } = await service(t);
    const text = await readFile(new URL(`../../${file}`, import.meta.url), 'utf8');
    const example = /```js\n(.*?)```/s.exec(text)?.[1] ?? '';
    const said = /await client\.close\(\); \/\/ (.*)/.exec(example)?.[1] ?? '';
    const program = path.join(folder(t), 'example.mjs');
    await writeFile(
      program,
      example
        .replace("'@rollcall/client'", `'${source('index.ts')}'`)
        .replace('http://127.0.0.1:8080', endpoint)
        .replace('await client.close()', 'console.log(await client.close())'),
    );
    const { stdout } = await promisify(execFile)(process.execPath, [program]);
    t.equal(stdout.trim(), said);
    t.equal(requests.length, 1);
  });
}
