import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import type { Test } from 'tap';

const ROOT = resolve(import.meta.dirname, '../..');

/**
 * Holds parts of a page to what the code says. Each stands between `<!-- made: NAME -->` and `<!-- end -->`;
 * `npm run reference` writes them anew.
 */
export function holdPage(t: Test, path: string, parts: Readonly<Record<string, string>>): void {
  const file = join(ROOT, path);
  const page = readFileSync(file, 'utf8');
  const made = Object.entries(parts).reduce((text, [name, content]) => {
    const place = new RegExp(`(<!-- made: ${name} -->\n).*?(?=<!-- end -->)`, 's');
    t.match(text, place, `${path} has a place for ${name}`);
    return text.replace(place, (_, head: string) => `${head}\n${linked(content, path).trim()}\n\n`);
  }, page);
  if (process.env['REFERENCE'] === 'write') writeFileSync(file, made);
  t.equal(readFileSync(file, 'utf8'), made, `npm run reference writes ${path} anew`);
}

/** Code names pages as `docs/delivery.md#filters`; a page links to them. */
function linked(text: string, page: string): string {
  return text.replaceAll(/(?<![\w/[]|\]\()(docs\/[\w/-]+\.md)(#[\w-]+)?/g, (_, target: string, anchor = '') => {
    const path = relative(dirname(page), target);
    return target === page ? `[${anchor.slice(1).replaceAll('-', ' ')}](${anchor})` : `[${target}](${path}${anchor})`;
  });
}

/** A table of Markdown. */
export function markdownTable(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(header), `|${'---|'.repeat(header.length)}`, ...rows.map(line), ''].join('\n');
}
