import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { USAGE_CODES } from '../src/cli/program.ts';
import { isFinal } from '../src/http/errors.ts';
import { DEAD_LETTER_REASONS } from '../src/kernel/dead-reasons.ts';
import { ERROR_CODES, HTTP_CODES, PROGRAM_CODES, STORE_CODES, SYNC_CODES } from '../src/kernel/error-codes.ts';
import { RollcallError } from '../src/kernel/errors.ts';
import { holdPage, markdownTable } from './helpers/made-page.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const LISTS = ['src/kernel/errors.ts', 'src/kernel/error-codes.ts', 'src/kernel/dead-reasons.ts'];
const groups = { http: HTTP_CODES, store: STORE_CODES, sync: SYNC_CODES, program: PROGRAM_CODES };
const codes = Object.keys(ERROR_CODES);

async function sources(...folders: readonly string[]): Promise<string> {
  const texts = folders.map(async (folder) => {
    const files = (await readdir(join(ROOT, folder), { recursive: true })).map((file) => join(folder, file));
    const wanted = files.filter((file) => file.endsWith('.ts') && !/(^|\/)(dist|node_modules|client)\//.test(file));
    return Promise.all(
      wanted.filter((file) => !LISTS.includes(file)).map((file) => readFile(join(ROOT, file), 'utf8')),
    );
  });
  return (await Promise.all(texts)).flat().join('\n');
}

t.test('documents every code and every reason of a dead letter in docs/errors.md, with what to do', async (t) => {
  const tables = Object.entries(groups).map(([name, group]) => {
    const rows = Object.entries(group).map(([code, { status, meaning, look, remedy }]) => [
      ...[`\`${code}\``, String(status), meaning, look ?? '–', remedy],
    ]);
    return [name, markdownTable(['code', 'status', 'meaning', 'where to look', 'what to do'], rows)];
  });
  const rows = Object.entries(DEAD_LETTER_REASONS).map(([reason, { meaning, look, remedy }]) => [
    ...[`\`${reason}\``, meaning, look, remedy],
  ]);
  const reasons = markdownTable(['reason', 'meaning', 'where to look', 'what to do'], rows);
  holdPage(t, 'docs/errors.md', { ...Object.fromEntries(tables), reasons });
});

t.test('names in docs/errors.md the codes that end a command with 2', async (t) => {
  const page = await readFile(join(ROOT, 'docs/errors.md'), 'utf8');
  const [item = ''] = /^- 2: .*?\)\.$/ms.exec(page) ?? [];
  t.same(item.match(/(?<=`)\w+(?=`)/g), [...USAGE_CODES]);
});

t.test('says where to look for every code that an operator has to repair', async (t) => {
  const ours = Object.entries(ERROR_CODES).filter(([, { status }]) => status >= 500);
  t.ok(ours.length > 15);
  for (const [code, { look }] of ours) t.not(look, null, code);
});

t.test('lists each code in one group', async (t) => {
  const listed = Object.values(groups).flatMap((group) => Object.keys(group));
  t.ok(listed.length > 60);
  t.strictSame(listed, codes);
});

t.test('gives failures of this side a status that clients retry', async (t) => {
  t.same(
    (['store_full', 'overloaded', 'rate_limited', 'request_timeout', 'internal_error'] as const).filter(isFinal),
    [],
  );
  t.ok((['unknown_source', 'too_large', 'event_not_defined'] as const).every(isFinal));
});

t.test('uses every code and every reason', async (t) => {
  const text = await sources('src', 'jobs');
  for (const code of [...codes, ...Object.keys(DEAD_LETTER_REASONS)]) t.ok(text.includes(`'${code}'`), code);
});

t.test('gives an error a code, a message and its cause', async (t) => {
  const cause = new Error('disk');
  t.match(new RollcallError('store_full', 'No room.', { cause }), {
    name: 'RollcallError',
    code: 'store_full',
    message: 'No room.',
    cause,
  });
});
