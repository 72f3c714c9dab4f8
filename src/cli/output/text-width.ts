import { createRequire } from 'node:module';

// Load on first use: few commands print tables, and the emoji tables take a tenth of the CPU of a start.
const load = createRequire(import.meta.url);

/** Nearly all cells: the libraries take some 10 µs for each. */
const ASCII = /^[\x20-\x7e]*$/;

export function textWidth(text: string): number {
  if (ASCII.test(text)) return text.length;
  return (load('string-width') as typeof import('string-width')).default(text);
}

export function truncated(text: string, columns: number): string {
  if (ASCII.test(text)) return text.length <= columns ? text : `${text.slice(0, columns - 1)}…`;
  return (load('cli-truncate') as typeof import('cli-truncate')).default(text, columns);
}
