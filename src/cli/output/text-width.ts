import { createRequire } from 'node:module';

// Few commands print tables, and tables of emojis take a tenth of the CPU of a start: they are loaded by whoever asks first.
const load = createRequire(import.meta.url);

/** Columns of a terminal that a text takes. */
export function textWidth(text: string): number {
  return (load('string-width') as typeof import('string-width')).default(text);
}

/** A text that takes so many columns at most. */
export function truncated(text: string, columns: number): string {
  return (load('cli-truncate') as typeof import('cli-truncate')).default(text, columns);
}
