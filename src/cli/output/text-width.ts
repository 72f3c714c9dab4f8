import { createRequire } from 'node:module';

// Load on first use: few commands print tables, and the emoji tables take a tenth of the CPU of a start.
const load = createRequire(import.meta.url);

export function textWidth(text: string): number {
  return (load('string-width') as typeof import('string-width')).default(text);
}

export function truncated(text: string, columns: number): string {
  return (load('cli-truncate') as typeof import('cli-truncate')).default(text, columns);
}
