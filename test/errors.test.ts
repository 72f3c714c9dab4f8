import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import type { ErrorCode } from '../src/errors.ts';
import { RollcallError } from '../src/errors.ts';
import { statusOf } from '../src/http-errors.ts';
import { DEAD_REASONS } from '../src/store/port.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const docs = await readFile(join(ROOT, 'docs/errors.md'), 'utf8');

/** What the members of a union of string literals are. */
async function union(file: string, name: string): Promise<readonly string[]> {
  const source = await readFile(join(ROOT, file), 'utf8');
  const declaration = new RegExp(`export type ${name} =(.*?);`, 's').exec(source)?.[1] ?? '';
  return [...declaration.matchAll(/'(\w+)'/g)].map(([, member = '']) => member);
}

async function sources(...folders: readonly string[]): Promise<string> {
  const texts = folders.map(async (folder) => {
    const files = await readdir(join(ROOT, folder), { recursive: true });
    const wanted = files.filter((file) => file.endsWith('.ts') && !/(^|\/)(dist|node_modules|client)\//.test(file));
    return Promise.all(
      wanted.filter((file) => file !== 'errors.ts').map((file) => readFile(join(ROOT, folder, file), 'utf8')),
    );
  });
  return (await Promise.all(texts)).flat().join('\n');
}

const codes = await union('src/errors.ts', 'ErrorCode');
const [aboutCodes = '', aboutReasons = ''] = docs.split('## Why deliveries die');

/** Names in the first column of the tables. */
function named(text: string): readonly string[] {
  return [...text.matchAll(/^\| `(\w+)` \| (?:\d{3} \| )?[^|]+ \| [^|]+ \|$/gm)].map(([, name = '']) => name);
}

t.test('every code is documented once, with what to do, and no other is', async (t) => {
  t.ok(codes.length > 40);
  t.strictSame(named(aboutCodes).toSorted(), codes.toSorted());
});

t.test('the documented status is the one that is answered', async (t) => {
  const statuses = [...aboutCodes.matchAll(/^\| `(\w+)` \| (\d{3}) \|/gm)];
  t.ok(statuses.length > 30);
  for (const [, code, status] of statuses) t.equal(statusOf(code as ErrorCode), Number(status), `${code}`);
});

t.test('every code can occur', async (t) => {
  const text = await sources('src', 'jobs');
  for (const code of codes) t.match(text, `'${code}'`, code);
});

t.test('every reason of a dead letter is documented, and no other is', async (t) => {
  t.strictSame(named(aboutReasons).toSorted(), [...DEAD_REASONS].toSorted());
});

t.test('an error has a code, a message and its cause', async (t) => {
  const cause = new Error('disk');
  t.match(new RollcallError('store_full', 'No room.', { cause }), {
    name: 'RollcallError',
    code: 'store_full',
    message: 'No room.',
    cause,
  });
});
