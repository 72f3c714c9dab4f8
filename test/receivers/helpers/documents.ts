import { readFileSync } from 'node:fs';
import { root } from './clean.ts';

interface Example {
  /** The heading of the second level. */
  readonly section: string;
  /** The heading of any level. */
  readonly heading: string;
  readonly code: string;
}

/** The TypeScript of a document, block by block, with the headings that each stands under. */
export function examplesOf(document: string): readonly Example[] {
  const text = readFileSync(`${root}${document}`, 'utf8');
  let section = '';
  let heading = '';
  return [...text.matchAll(/^(#+) ([^\n]*)$|^```ts\n(.*?)^```/gms)].flatMap(([, level, title, code]) => {
    if (level === '##') section = title ?? section;
    heading = title ?? heading;
    return code === undefined ? [] : [{ section, heading, code }];
  });
}
