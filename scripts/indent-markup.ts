/**
 * Indents the markup in the templates of the pages, which Biome leaves as it is: content by two, attributes by four, and what ends an
 * element as the line that begins it. Lines end where they did, since htm drops their ends. With `--check` it only names what differs.
 */
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const HOME = join(import.meta.dirname, '../src/admin/pages');
const [CONTENT, ATTRIBUTES] = [2, 4];

interface Template {
  readonly line: number;
  /** True if not all of it is in one element. */
  isList: boolean;
}

interface Element {
  readonly line: number;
  readonly of: Template;
}

type Place =
  | { readonly kind: 'markup'; readonly template: Template; readonly open: Element[]; isInTag: boolean }
  | { readonly kind: 'text' }
  | { readonly kind: 'code'; readonly line: number; braces: number };

/** Parts of JavaScript that may have quotes and braces: comments, strings and, behind an operator, regular expressions. */
const SKIPPED =
  /\/\/.*|\/\*[\s\S]*?\*\/|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|(?<=[(,=>:[!&|?{;]\s*)\/(?:\\.|\[(?:\\.|[^\]\\])*\]|[^/\\[\n])+\//y;

function indented(text: string): string {
  const lines = text.split('\n');
  const own = lines.map((line) => line.length - line.trimStart().length);
  const places: Place[] = [{ kind: 'code', line: 0, braces: 0 }];
  /** The indent of each line, from the lines before it. */
  const rules: ((known: readonly number[]) => number)[] = [() => 0];
  const baseOf = ({ line, of }: Element, known: readonly number[]) =>
    (known[line] ?? 0) + (of.isList && line === of.line ? CONTENT : 0);
  const nextRule = (): (typeof rules)[number] => {
    const [place, n] = [places.at(-1), rules.length];
    const [line = '', indent = 0] = [lines[n], own[n]];
    // Code moves with the line that it begins in.
    if (place?.kind === 'code') return (known) => indent + (known[place.line] ?? 0) - (own[place.line] ?? 0);
    if (place?.kind !== 'markup') return () => indent;
    const { template, open, isInTag } = place;
    const element = open.at(-1);
    if (element) {
      const further = /^\s*(<\/|\/?>)/.test(line) ? 0 : isInTag ? ATTRIBUTES : CONTENT;
      return (known) => baseOf(element, known) + further;
    }
    const isOver = /^\s*`/.test(line);
    template.isList ||= !isOver;
    return (known) => (known[template.line] ?? 0) + (isOver ? 0 : CONTENT);
  };
  for (let at = 0; at < text.length; at += 1) {
    const place = places.at(-1);
    const [char, next] = [text[at], text[at + 1]];
    SKIPPED.lastIndex = at;
    const [skipped = ''] = (place?.kind === 'code' && SKIPPED.exec(text)) || [];
    if (skipped !== '') {
      for (const each of skipped) if (each === '\n') rules.push(nextRule());
      at += skipped.length - 1;
    } else if (char === '\n') {
      rules.push(nextRule());
    } else if (place?.kind === 'code') {
      if (char === '`') {
        const template = { line: rules.length - 1, isList: false };
        const isMarkup = text.endsWith('html', at);
        places.push(isMarkup ? { kind: 'markup', template, open: [], isInTag: false } : { kind: 'text' });
      } else if (char === '}' && place.braces === 0) places.pop();
      else place.braces += char === '{' ? 1 : char === '}' ? -1 : 0;
    } else if (char === '$' && next === '{') {
      places.push({ kind: 'code', line: rules.length - 1, braces: 0 });
      at += 1;
    } else if (char === '`') places.pop();
    else if (place?.kind !== 'markup') continue;
    else if (place.isInTag && char === '>') {
      place.isInTag = false;
      if (text[at - 1] === '/') place.open.pop();
    } else if (!place.isInTag && char === '<') {
      if (next === '/') {
        place.open.pop();
        at = text.indexOf('>', at);
      } else {
        place.open.push({ line: rules.length - 1, of: place.template });
        place.isInTag = true;
      }
    }
  }
  const known: number[] = [];
  return lines
    .map((line, n) => {
      known[n] = rules[n]?.(known) ?? 0;
      return line.trim() === '' ? '' : ' '.repeat(known[n]) + line.trimStart();
    })
    .join('\n');
}

for (const name of globSync('{,views/}*.js', { cwd: HOME }).toSorted()) {
  const text = readFileSync(join(HOME, name), 'utf8');
  const wanted = indented(text);
  if (wanted === text) continue;
  if (!process.argv.includes('--check')) writeFileSync(join(HOME, name), wanted);
  else {
    const line = wanted.split('\n').findIndex((each, n) => each !== text.split('\n')[n]);
    console.error(`${name}:${line + 1}: the markup is not indented as npm run format does it`);
    process.exitCode = 1;
  }
}
