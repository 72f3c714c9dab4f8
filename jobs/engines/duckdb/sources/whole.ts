import { createReadStream } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { Readable, type Transform, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { formatOf } from '../../../../src/config/table-schema.ts';
import { systemClock } from '../../../../src/kernel/clock.ts';
import { RollcallError } from '../../../../src/kernel/errors.ts';
import { literal } from '../../sql/plan-query.ts';
import type { SqlSession } from '../../sql/session.ts';
import type { LookOnce } from './looks.ts';
import { shownPath } from './text-source.ts';

/** Size, change time and identity of each file: a file with other ones was changed. */
export type Prints = ReadonlyMap<string, string>;

/** The print of a file that is gone, or whose server doesn't say when it changed. */
export const UNKNOWN = 'unknown';

/** The means to look through files. */
export interface FileLooks {
  readonly session: SqlSession;
  /** The configuration's folder. */
  readonly folder: string;
  readonly once: LookOnce;
  readonly signal?: AbortSignal | undefined;
}

const COMPRESSED = /\.(gz|zst)$/i;
const isLocal = (file: string) => !file.includes('://');

/** Remote Parquet files are left out: DuckDB notices itself if one is replaced between two of its requests. */
export async function printsOf(session: SqlSession, files: readonly string[]): Promise<Prints> {
  const prints = new Map<string, string>();
  for (const file of files) {
    if (isLocal(file)) {
      const found = await stat(file, { bigint: true }).catch(() => null);
      prints.set(file, found ? `${found.size} ${found.mtimeNs} ${found.ino}` : UNKNOWN);
    } else if (formatOf(file) !== 'parquet') {
      const [[size, changed] = []] = await session.rows(
        `SELECT size, epoch_ms(last_modified) FROM read_blob(${literal(file)})`,
      );
      prints.set(file, Number(changed) > 0 ? `${size} ${changed}` : UNKNOWN);
    }
  }
  return prints;
}

/** @throws RollcallError `source_incomplete` if a file changed since */
export async function insistOnUnchanged({ session, folder }: FileLooks, before: Prints): Promise<void> {
  const after = await printsOf(session, [...before.keys()]);
  for (const [file, print] of before) {
    if (after.get(file) === print) continue;
    const message = `${shownPath(file, folder)} changed while it was read: somebody is still writing it. Write files under another name, then rename them.`;
    throw new RollcallError('source_incomplete', message);
  }
}

const LARGEST_VERIFIED = 256 * 1024 * 1024;

/** True for a compressed remote file that is not verified: DuckDB hands it over only as a whole. */
export function isTooLarge(file: string, prints: Prints): boolean {
  const size = Number.parseInt(prints.get(file) ?? '', 10);
  return !isLocal(file) && COMPRESSED.test(file) && size > LARGEST_VERIFIED;
}

/**
 * Reads compressed files to their end, with their checksums: DuckDB takes a file that was cut off for a shorter one.
 *
 * @throws RollcallError `source_incomplete` if one is cut off, `file_differs` if one is damaged
 */
export async function insistOnWhole(looks: FileLooks, prints: Prints): Promise<void> {
  for (const [file, print] of prints) {
    const form = COMPRESSED.exec(file)?.[1]?.toLowerCase();
    if (form === undefined || (isLocal(file) && print === UNKNOWN) || isTooLarge(file, prints)) continue;
    await looks.once(['whole', file, print], async () => {
      const shown = shownPath(file, looks.folder);
      const bytes = isLocal(file) ? await localBytes(file) : await remoteBytes(looks.session, file);
      try {
        await (form === 'gz' ? unpack(bytes.from(0, bytes.size), createGunzip(), looks) : readZstd(bytes, looks));
      } catch (error) {
        const { code, message } = error as NodeJS.ErrnoException;
        if (code === 'Z_BUF_ERROR')
          throw new RollcallError('source_incomplete', `${shown} is cut off. ${await ageOf(file)}`);
        if (!/^(Z|ZSTD)_/.test(code ?? '')) throw error;
        throw new RollcallError('file_differs', `${shown} is damaged: ${message}. Get it again from its origin.`);
      } finally {
        await bytes.close();
      }
      return print !== UNKNOWN;
    });
  }
}

const RECENT = 60_000;

/** Says if a file that ends too early is likely to be still written. */
export async function ageOf(file: string): Promise<string> {
  if (!isLocal(file)) return 'Get it again from its origin.';
  const { mtimeMs } = await stat(file);
  const age = systemClock.now() - mtimeMs;
  if (age < RECENT) return 'It changed within the last minute, so somebody may still be writing it.';
  const at = new Date(mtimeMs).toISOString();
  return `It has not changed since ${at}, so it will stay as it is: get it again from its origin.`;
}

/** The bytes of a compressed file. */
interface Bytes {
  readonly size: number;
  read(at: number, length: number): Promise<Buffer>;
  from(start: number, end: number): Readable;
  close(): Promise<void>;
}

async function localBytes(file: string): Promise<Bytes> {
  const handle = await open(file);
  return {
    size: (await handle.stat()).size,
    async read(at, length) {
      const { bytesRead, buffer } = await handle.read(Buffer.alloc(length), 0, length, at);
      return buffer.subarray(0, bytesRead);
    },
    from: (start, end) => createReadStream(file, { start, end: Math.max(start, end - 1) }),
    close: () => handle.close(),
  };
}

async function remoteBytes(session: SqlSession, file: string): Promise<Bytes> {
  const [[content] = []] = await session.rows(`SELECT content FROM read_blob(${literal(file)})`);
  const bytes = content as Buffer;
  return {
    size: bytes.length,
    read: async (at, length) => bytes.subarray(at, at + length),
    from: (start, end) => Readable.from([bytes.subarray(start, end)]),
    close: async () => {},
  };
}

const nowhere = () => new Writable({ write: (_part, _encoding, next) => next() });

const unpack = (bytes: Readable, unzip: Transform, { signal }: FileLooks) =>
  pipeline(bytes, unzip, nowhere(), signal ? { signal } : {});

const FRAME = 0xfd2fb528;
const cut = () => Object.assign(new Error('unexpected end of file'), { code: 'Z_BUF_ERROR' });
const damaged = () => Object.assign(new Error('no zstd frame'), { code: 'ZSTD_error_prefix_unknown' });

/** Node reads only the first frame of a file, but parallel compressors write many. */
async function readZstd(bytes: Bytes, looks: FileLooks): Promise<void> {
  if (bytes.size === 0) throw cut();
  for (let at = 0; at < bytes.size; ) {
    const { end, isSkipped } = await frameEnd(bytes, at);
    if (end > bytes.size) throw cut();
    if (!isSkipped) await unpack(bytes.from(at, end), createZstdDecompress(), looks);
    at = end;
  }
}

/** The end of a frame, by the sizes of its blocks (RFC 8878). */
async function frameEnd(bytes: Bytes, start: number): Promise<{ end: number; isSkipped: boolean }> {
  const read = async (at: number, length: number) => {
    const part = await bytes.read(at, length);
    if (part.length < length) throw cut();
    return part;
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
