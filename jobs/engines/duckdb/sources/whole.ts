import { createReadStream } from 'node:fs';
import { type FileHandle, open, stat } from 'node:fs/promises';
import { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { systemClock } from '../../../../src/kernel/clock.ts';
import { RollcallError } from '../../../../src/kernel/errors.ts';
import { shownPath } from './text-source.ts';

/** Size, change time and identity of each file: a file with other ones was changed. */
export type Prints = ReadonlyMap<string, string>;

const isLocal = (file: string) => !file.includes('://');

/** Files elsewhere are left out: their stores replace an object as a whole. */
export async function printsOf(files: readonly string[]): Promise<Prints> {
  const prints = new Map<string, string>();
  for (const file of files.filter(isLocal)) {
    const found = await stat(file, { bigint: true }).catch(() => null);
    prints.set(file, found ? `${found.size} ${found.mtimeNs} ${found.ino}` : 'none');
  }
  return prints;
}

/** @throws RollcallError `source_incomplete` if a file changed since */
export async function insistOnUnchanged(before: Prints, folder: string): Promise<void> {
  const after = await printsOf([...before.keys()]);
  for (const [file, print] of before) {
    if (after.get(file) === print) continue;
    const message = `${shownPath(file, folder)} changed while it was read: somebody is still writing it. Write files under another name, then rename them.`;
    throw new RollcallError('source_incomplete', message);
  }
}

/** Files that were read to their end, with their prints then. */
const checkedFiles = new Map<string, string>();
const MOST_CHECKED = 10_000;

/**
 * Reads compressed files to their end, with their checksums: DuckDB takes a file that was cut off for a shorter one.
 *
 * @throws RollcallError `source_incomplete` if one is cut off, `file_differs` if one is damaged
 */
export async function insistOnWhole(prints: Prints, folder: string): Promise<void> {
  for (const [file, print] of prints) {
    const form = /\.(gz|zst)$/i.exec(file)?.[1]?.toLowerCase();
    if (form === undefined || checkedFiles.get(file) === print || print === 'none') continue;
    try {
      await (form === 'gz' ? readGzip(file) : readZstd(file));
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      const shown = shownPath(file, folder);
      if (code === 'Z_BUF_ERROR')
        throw new RollcallError('source_incomplete', `${shown} is cut off. ${await ageOf(file)}`);
      if (!/^(Z|ZSTD)_/.test(code ?? '')) throw error;
      throw new RollcallError('file_differs', `${shown} is damaged: ${message}. Get it again from its origin.`);
    }
    if (checkedFiles.size >= MOST_CHECKED) checkedFiles.clear();
    checkedFiles.set(file, print);
  }
}

const RECENT = 60_000;

/** Says if a file that ends too early is likely to be still written. */
export async function ageOf(file: string): Promise<string> {
  const { mtimeMs } = await stat(file);
  const age = systemClock.now() - mtimeMs;
  if (age < RECENT) return 'It changed within the last minute, so somebody may still be writing it.';
  const at = new Date(mtimeMs).toISOString();
  return `It has not changed since ${at}, so it will stay as it is: get it again from its origin.`;
}

const nowhere = () => new Writable({ write: (_part, _encoding, next) => next() });

function readGzip(file: string): Promise<void> {
  return pipeline(createReadStream(file), createGunzip(), nowhere());
}

const FRAME = 0xfd2fb528;
const cut = () => Object.assign(new Error('unexpected end of file'), { code: 'Z_BUF_ERROR' });
const damaged = () => Object.assign(new Error('no zstd frame'), { code: 'ZSTD_error_prefix_unknown' });

/** Node reads only the first frame of a file, but parallel compressors write many. */
async function readZstd(file: string): Promise<void> {
  const handle = await open(file);
  try {
    const { size } = await handle.stat();
    if (size === 0) throw cut();
    for (let at = 0; at < size; ) {
      const { end, isSkipped } = await frameEnd(handle, at);
      if (end > size) throw cut();
      if (!isSkipped) {
        const bytes = createReadStream(file, { start: at, end: end - 1 });
        await pipeline(bytes, createZstdDecompress(), nowhere());
      }
      at = end;
    }
  } finally {
    await handle.close();
  }
}

/** The end of a frame, by the sizes of its blocks (RFC 8878). */
async function frameEnd(handle: FileHandle, start: number): Promise<{ end: number; isSkipped: boolean }> {
  const read = async (at: number, length: number) => {
    const { bytesRead, buffer } = await handle.read(Buffer.alloc(length), 0, length, at);
    if (bytesRead < length) throw cut();
    return buffer;
  };
  const magic = (await read(start, 4)).readUInt32LE();
  if (magic >>> 4 === 0x184d2a5) return { end: start + 8 + (await read(start + 4, 4)).readUInt32LE(), isSkipped: true };
  if (magic !== FRAME) throw damaged();
  const descriptor = (await read(start + 4, 1)).readUInt8();
  const isSingle = (descriptor >> 5) & 1;
  const sizeBytes = [isSingle, 2, 4, 8][descriptor >> 6] ?? 0;
  let at = start + 5 + (1 - isSingle) + ([0, 1, 2, 4][descriptor & 3] ?? 0) + sizeBytes;
  for (let isLast = false; !isLast; ) {
    const header = (await read(at, 3)).readUIntLE(0, 3);
    isLast = (header & 1) === 1;
    const isRepeated = ((header >> 1) & 3) === 1;
    at += 3 + (isRepeated ? 1 : header >> 3);
  }
  return { end: at + ((descriptor >> 2) & 1 ? 4 : 0), isSkipped: false };
}
