import { readFileSync } from 'node:fs';
import { root } from './clean.ts';

/** The TypeScript of a document, block by block, each under the heading that it stands under. */
export function examplesOf(document: string): { readonly heading: string; readonly code: string }[] {
  const text = readFileSync(`${root}${document}`, 'utf8');
  let heading = '';
  return [...text.matchAll(/^#+ ([^\n]*)$|^```ts\n(.*?)^```/gms)].flatMap(([, title, code]) => {
    heading = title ?? heading;
    return code === undefined ? [] : [{ heading, code }];
  });
}
