import { createHash } from 'node:crypto';
import { globSync, readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { PAGE_LISTS } from './page-lists.ts';

export interface PageFile {
  readonly type: string;
  /** Bytes, as they are sent: many answers share them. */
  readonly plain: Buffer;
  readonly gzip: Buffer;
}

interface PageFiles {
  readonly index: PageFile;
  /** A hash of all files, which are served under `/pages/HASH/`. */
  readonly hash: string;
  /** The files by their paths under that. */
  readonly files: ReadonlyMap<string, PageFile>;
}

const HOME = join(import.meta.dirname, 'pages');
const TYPES: Record<string, string> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.html': 'text/html; charset=utf-8',
  '.json': 'application/json',
  '.yaml': 'application/x-yaml',
};

/** The packages that the pages import, and the names of their files. */
const PACKAGES = [
  ['preact', 'preact.js'],
  ['preact/hooks', 'preact-hooks.js'],
  ['htm', 'htm.js'],
] as const;

/** Parts of the style sheet, which compresses better as one, in order. */
const STYLES = ['base', 'frame', 'parts', 'charts', 'narrow'];

/** A script that is no module. */
const CLASSIC = 'first.js';

/** Read all files: there are some forty. */
export function readPageFiles(): PageFiles {
  const own = globSync('{,views/}*.{js,svg}', { cwd: HOME }).map((name): [string, string] => [
    name,
    read(join(HOME, name)),
  ]);
  const foreign = PACKAGES.map(([name, file]): [string, string] => [
    file,
    read(fileURLToPath(import.meta.resolve(name))),
  ]);
  const lists = Object.entries(PAGE_LISTS).map(([name, list]) => `export const ${name} = ${JSON.stringify(list)};\n`);
  const style = STYLES.map((name) => read(join(HOME, `${name}.css`))).join('');
  const texts = [
    ...own,
    ...foreign,
    ['lists.js', lists.join('')] as const,
    ['style.css', style.replaceAll(/\/\*[\s\S]*?\*\/|\s*([{};,])\s*/g, '$1')] as const,
  ]
    .map(([name, text]): [string, string] => [name, prepared(name, text)])
    .toSorted();
  const hash = createHash('sha256').update(JSON.stringify(texts)).digest('hex').slice(0, 12);
  const folder = `/pages/${hash}`;
  const modules = texts.flatMap(([name]) => (name.endsWith('.js') && name !== CLASSIC ? `${folder}/${name}` : []));
  const preloads = modules.map((path) => `<link rel="modulepreload" href="${path}">`).join('\n');
  const document = read(join(HOME, 'index.html')).replaceAll('$folder', folder).replace('$preloads', preloads);
  return {
    index: made('index.html', document),
    hash,
    files: new Map(texts.map(([name, text]) => [name, made(name, text)])),
  };
}

/**
 * Replace names of packages by paths. An import map would have to be inline in the document. Remove comments,
 * including types within a line, and indents and line ends that neither scripts nor markup need: they are a sixth of the bytes.
 */
function prepared(path: string, text: string): string {
  const home = path.includes('/') ? '../' : './';
  const bare = text
    .replaceAll(/^ *\/\*(?:(?!\*\/)[\s\S])*\*\/\n/gm, '')
    .replaceAll(/\/\*\* @type (?:(?!\*\/).)*\*\/ ?/g, '')
    .replaceAll(/^ *\/\/.*$\n?/gm, '')
    .replaceAll(/^\s+/gm, '')
    .replaceAll(/(?<=[>{[(])\n|,?\n(?=[}\])])|\n(?=<)/g, '');
  return PACKAGES.reduce(
    (changed, [name, file]) =>
      changed.replaceAll(new RegExp(`(\\bfrom\\s*)(['"])${name}\\2`, 'g'), `$1$2${home}${file}$2`),
    bare,
  );
}

export function made(name: string, text: string): PageFile {
  const plain = Buffer.from(text);
  return { type: TYPES[extname(name)] ?? 'text/plain', plain, gzip: gzipSync(plain, { level: 9 }) };
}

function read(path: string): string {
  return readFileSync(path, 'utf8');
}
