import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import t from 'tap';
import { sentencesOf, wordsOf } from './helpers/sentences.ts';

const ROOT = resolve(import.meta.dirname, '..');
const isOurs = (path: string) => !/(^|\/)(node_modules|dist|\.tap)(\/|$)/.test(path);
const find = (pattern: string) => globSync(pattern, { cwd: ROOT, exclude: (path) => !isOurs(path) }).filter(isOurs);
const pages = [
  ...['*.md', 'docs/**/*.md', 'deploy/*.md', 'receivers/*.md', 'src/client/*.md', 'examples/**/*.md', 'bench/*.md'],
].flatMap(find);
/** Not the history, and no figures. */
const prose = pages.filter((page) => page !== 'CHANGELOG.md' && !page.startsWith('bench/'));
const text = (path: string) => readFileSync(join(ROOT, path), 'utf8');

/** As GitHub makes them of headings. */
function anchors(page: string): Set<string> {
  const headings = [...text(page).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => heading);
  return new Set(
    headings.map((heading) =>
      heading
        .toLowerCase()
        .replace(/[^\p{L}\p{N}\s_-]/gu, '')
        .replaceAll(' ', '-'),
    ),
  );
}

t.test('has a target for every link from one document to another', async (t) => {
  const links = pages.flatMap((page) =>
    [...text(page).matchAll(/\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)/g)].map(([, path = '', anchor]) => ({
      page,
      target: path === '' ? page : join(dirname(page), path),
      anchor,
    })),
  );
  t.ok(links.length > 20);
  for (const { page, target, anchor } of links) {
    const exists = existsSync(join(ROOT, target));
    if (!exists) t.fail(`${page} links to ${target}`);
    else if (anchor !== undefined && !anchors(target).has(anchor)) t.fail(`${page} links to ${target}#${anchor}`);
  }
});

t.test('has every file of ours that a document or a comment names', async (t) => {
  const files = ['src/**/*.ts', 'jobs/**/*.ts', 'receivers/**/*.ts', 'test/**/*.ts', '**/migrations/*.sql'].flatMap(
    find,
  );
  const named =
    /(?<![\w/.@-])(?:src|jobs|receivers|test|docs|bench|deploy|examples|scripts)\/[\w./-]*\.(?:ts|md|sql|yaml|json)\b/g;
  // Others call different things by these names.
  const isForeign = (path: string) =>
    /^src\/(rollcall\.d|pages\/hooks)\.ts$/.test(path) || /^examples\/(?!shop)/.test(path);
  for (const page of [...pages, ...files]) {
    const own = page.startsWith('test/') ? [] : [...text(page).matchAll(named)].map(([path]) => path);
    for (const path of new Set(own)) {
      if (!isForeign(path) && !existsSync(join(ROOT, path)) && !existsSync(join(ROOT, dirname(page), path))) {
        t.fail(`${page} names ${path}`);
      }
    }
  }
});

t.test('cites no document in comments that is not here', async (t) => {
  const files = ['src/**/*.ts', 'jobs/**/*.ts', 'receivers/**/*.ts', 'test/**/*.ts', 'bench/*.ts'].flatMap(find);
  const citation = /\b(?:design|spec|specification),? sections? \d/;
  const citing = files.filter((file) => file !== 'test/docs.test.ts' && citation.test(text(file)));
  t.same(citing, []);
});

/** The longest sentence that one still understands at once. */
const MOST_WORDS = 30;

t.test(`has no sentence of more than ${MOST_WORDS} words in the documentation`, async (t) => {
  const long = (page: string) => sentencesOf(text(page)).filter((sentence) => wordsOf(sentence) > MOST_WORDS);
  t.ok(prose.flatMap((page) => sentencesOf(text(page))).length > 2_500);
  for (const page of prose) t.same(long(page), [], page);
});

const MOST_CHARACTERS = 120;

t.test(`has no line of more than ${MOST_CHARACTERS} characters in the documentation`, async (t) => {
  for (const page of prose) t.same(tooWide(text(page)), [], page);
});

/** Rows of tables cannot be broken, and neither can what a program printed, nor a link that is longer than a line. */
function tooWide(page: string): readonly string[] {
  const breakable = page
    .replaceAll(/^<!-- made: .*?^<!-- end -->/gms, '')
    .replaceAll(/^```console\n.*?^```/gms, '')
    .replaceAll(/^\|.*$/gm, '');
  return breakable.split('\n').filter((line) => [...line].length > MOST_CHARACTERS && line.trim().includes(' '));
}

t.test('distinguishes sentences from code, links, cells and items', async (t) => {
  const page =
    '# A head\n\nOne is `a.b. C` [here](https://x.y). Two, too!\n\n- An item\n- Another\n\n| a | b c |\n|---|---|\n';
  const found = ['A head', 'One is code here.', 'Two, too!', 'An item', 'Another', 'a', 'b c'];
  t.same(sentencesOf(page), found);
  t.same(found.map(wordsOf), [2, 4, 2, 2, 1, 1, 2]);
});

/** How a comment begins that says about what it speaks, and not what it says. */
const HEADLESS = /\/\*\* (?:Whether|How|Where|What|Has|Who|When|Of|By|Its|Whose) /;

t.test('begins doc comments with a noun or a verb', async (t) => {
  const files = ['src/**/*.{ts,js}', 'jobs/**/*.ts', 'receivers/**/*.ts'].flatMap(find);
  const comments = files.flatMap((file) => text(file).split('\n')).filter((line) => line.includes('/** '));
  t.ok(comments.length > 3_000);
  const headless = comments.filter((line) => HEADLESS.test(line)).map((line) => line.trim());
  t.ok(headless.length < comments.length * 0.02, `${headless.length} of ${comments.length}: ${headless.slice(0, 5)}`);
});
