import { once } from 'node:events';
import { forScreen, type Terminal } from './terminal.ts';

/** Write lines as fast as the reader takes them, so that a long list is not buffered in memory. */
export async function writeLines({ stdout, signal }: Terminal, lines: readonly string[]): Promise<void> {
  if (lines.length === 0) return;
  if (!stdout.write(`${forScreen(stdout, lines.join('\n'))}\n`)) await once(stdout, 'drain', { signal });
}

export const printLines = (terminal: Terminal, rows: readonly unknown[]): Promise<void> =>
  writeLines(
    terminal,
    rows.map((row) => JSON.stringify(row)),
  );

/** A field of a CSV line (RFC 4180). Spreadsheets would compute text like `=1+1`, so it gets a quote in front (OWASP). */
export function csvField(value: unknown): string {
  if (value === null || value === undefined) return '';
  const text = typeof value === 'string' ? value.replace(/^[=+\-@\t\r\n]/, "'$&") : JSON.stringify(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
