import { mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import querystring from 'node:querystring';
import type { Remark } from '../../kernel/remark.ts';
import type { LogFile } from '../event-log.ts';

/** Folder of unfinished files, and of data that does not fit into memory. */
export const WORK = '.work';
/** The file of a table's source and day. */
export const SEALED = 'sealed.parquet';
/** The file of `note` and `notes`. */
export const NOTES = 'deletions.jsonl';

/** The process, or the processes, that write to a log. */
export interface LogWriter {
  /** Id of the store. */
  readonly store: string;
  /** True if processes on several machines share the store. */
  readonly isShared: boolean;
}

export interface BucketTraffic {
  readonly requests: Record<'ok' | 'retried' | 'failed', number>;
  readonly bytes: Record<'sent' | 'received', number>;
}

interface DayFiles {
  /** The last day that was copied; null if none was. */
  until(): Promise<string | null>;
  setUntil(day: string): Promise<void>;
  /** Remove what the folder has of them, whole or not. */
  clear(): Promise<void>;
}

export type SizedFile = Pick<LogFile, 'name' | 'bytes'>;

/** The place of a log's files: a folder, or a bucket with a cache of it in a folder. */
export interface LogFiles {
  /** Absolute path in which DuckDB reads and writes. */
  readonly folder: string;
  /** The place as people name it. */
  readonly place: string;
  /** Requests by outcome and bytes by direction since the process began; null without a bucket. */
  readonly traffic: BucketTraffic | null;
  /**
   * Take the right to write, or renew it.
   *
   * @throws RollcallError `event_log_taken`
   */
  claim(writer: LogWriter): Promise<void>;
  /** Bring files into the folder, where they stay for ten minutes at least. */
  fetch(files: readonly SizedFile[]): Promise<void>;
  /** Give a finished draft its name. Resolves once that is durable. */
  put(draft: string, name: string): Promise<void>;
  isThere(name: string): Promise<boolean>;
  /** Files of a log that are there, by their names alone: also those that the store does not list. */
  list(): Promise<readonly LogFile[]>;
  /** Remove files and their drafts. */
  remove(names: readonly string[]): Promise<void>;
  /** Make the folder's copy as good as the original, or find out what is wrong with that: `missing` or `size`. */
  fault(file: SizedFile): Promise<'missing' | 'size' | null>;
  /** Remove copies from the folder that are not needed. */
  trim(): Promise<void>;
  /** The copies of a table's days; null without a bucket. */
  readonly copies: DayFiles | null;
  notes(): Promise<string>;
  /** Append to the notes. Resolves once that is durable. */
  note(text: string): Promise<void>;
  /** Try to write, read and remove, if the files are not on this machine. */
  examine(): Promise<readonly Remark[]>;
  /** True if a log was ever kept there. */
  isUsed(): Promise<boolean>;
}

export function folderFiles(folder: string): LogFiles {
  const at = (name: string) => join(folder, name);
  const sizeOf = (name: string) => stat(at(name)).then(({ size }) => size, gone);
  return {
    folder,
    ...{ place: folder, traffic: null, copies: null },
    async claim() {},
    async fetch() {},
    async put(draft, name) {
      await sync(draft);
      const path = at(name);
      await mkdir(dirname(path), { recursive: true });
      await rename(draft, path);
      for (const each of [dirname(path), dirname(dirname(path)), folder]) await sync(each);
    },
    isThere: async (name) => (await sizeOf(name)) !== null,
    list: async () => (await filesIn(folder)).flatMap(({ name, bytes }) => namedFile(name, bytes) ?? []),
    async remove(names) {
      const drafts = (await readdir(at(WORK)).catch(gone)) ?? [];
      for (const name of names) {
        await rm(at(name), { force: true });
        for (const draft of drafts)
          if (draft.startsWith(basename(name))) await rm(join(folder, WORK, draft), { force: true });
      }
    },
    async fault({ name, bytes }) {
      const size = await sizeOf(name);
      if (size === null) return 'missing';
      return size === bytes ? null : 'size';
    },
    async trim() {},
    notes: async () => (await readFile(at(NOTES), 'utf8').catch(gone)) ?? '',
    async note(text) {
      await mkdir(folder, { recursive: true });
      const file = await open(at(NOTES), 'a');
      try {
        await file.write(text);
        await file.sync();
      } finally {
        await file.close();
      }
    },
    examine: async () => [],
    async isUsed() {
      const names = await readdir(folder).catch(() => []);
      return names.some((name) => name === NOTES || name.startsWith('source='));
    },
  };
}

/** The files of a log in a folder. */
export async function filesIn(folder: string) {
  const names = (await readdir(folder, { recursive: true }).catch(gone)) ?? [];
  const found = await Promise.all(
    names
      .filter((name) => name.startsWith('source=') && name.endsWith('.parquet'))
      .map(async (name) => {
        const known = await stat(join(folder, name)).catch(gone);
        return known && { name, bytes: known.size, usedAt: known.mtimeMs };
      }),
  );
  return found.filter((file) => file !== null);
}

/** What the name of a file says, without trusting that it is ours; null if it is none of a log. */
export function namedFile(name: string, bytes: number): LogFile | null {
  const [, source, day] = /^source=([^/]+)\/day=([\d-]+)\/[^/]+\.parquet$/.exec(name) ?? [];
  return source && day ? { name, bytes, source: querystring.unescape(source), day, events: 0 } : null;
}

/** @returns null if a file is not there */
export function gone(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT') return null;
  throw error;
}

async function sync(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
