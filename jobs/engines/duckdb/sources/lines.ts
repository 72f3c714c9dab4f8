import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream';
import { createGunzip, createZstdDecompress } from 'node:zlib';

export interface CsvForm {
  readonly header: boolean;
  readonly delimiter: string;
  readonly quote: string;
  readonly escape: string;
  readonly encoding: string;
  readonly skip?: number;
}

/** The parts of a file's text. Local files only. */
async function* textOf(file: string, encoding: string): AsyncGenerator<string> {
  const bytes = createReadStream(file);
  const unzip = /\.gz$/i.test(file) ? createGunzip() : /\.zst$/i.test(file) ? createZstdDecompress() : null;
  const source = unzip ? pipeline(bytes, unzip, () => {}) : bytes;
  const decoder = new TextDecoder(encoding === 'latin-1' ? 'latin1' : encoding === 'utf-16' ? 'utf-16le' : 'utf-8');
  for await (const part of source) yield decoder.decode(part as Buffer, { stream: true });
}

/** The line on which a record of a CSV file, or a file of JSON lines, begins. Null for other JSON. */
export async function lineOf(
  file: string,
  record: number,
  csv: CsvForm | null,
  countsBlank: boolean,
): Promise<number | null> {
  let left = record + (csv?.header ? 1 : 0);
  for await (const { line, isBlank, text } of recordsOf(file, csv)) {
    if (csv === null && line === 1 && text.startsWith('[')) return null;
    if (csv && line <= (csv.skip ?? 0)) continue;
    if (isBlank && !(csv && countsBlank)) continue;
    left -= 1;
    if (left === 0) return line;
  }
  return null;
}

interface RawRecord {
  readonly line: number;
  readonly isBlank: boolean;
  /** The first characters of the line. */
  readonly text: string;
  /** True if the file ends within a quoted value. */
  readonly isOpen: boolean;
}

const SHOWN = 1_000;

/** Records with the lines on which they begin. A quoted value may have line ends. */
export async function* recordsOf(file: string, csv: CsvForm | null): AsyncGenerator<RawRecord> {
  const quote = csv?.quote ?? '';
  let line = 1;
  let begun = 1;
  let text = '';
  let size = 0;
  let isOpen = false;
  let last = '';
  for await (const part of textOf(file, csv?.encoding ?? 'utf-8')) {
    for (const char of part) {
      const isEnd = char === '\n' || char === '\r';
      const isSecond = char === '\n' && last === '\r';
      last = char;
      if (char === quote) isOpen = !isOpen;
      if (isEnd && !isSecond) line += 1;
      if (isOpen || !isEnd) {
        size += 1;
        if (text.length < SHOWN) text += char;
        continue;
      }
      if (isSecond) continue;
      yield { line: begun, isBlank: size === 0, text, isOpen: false };
      begun = line;
      text = '';
      size = 0;
    }
  }
  if (size > 0) yield { line: begun, isBlank: false, text, isOpen };
}
