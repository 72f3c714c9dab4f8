import { mkdir, open, readFile, rename, rm, stat, utimes } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import * as z from 'zod';
import type { BucketConfig } from '../../config/config.ts';
import { systemClock } from '../../kernel/clock.ts';
import { RollcallError } from '../../kernel/errors.ts';
import {
  filesIn,
  folderFiles,
  gone,
  type LogFiles,
  type LogWriter,
  NOTES,
  namedFile,
  SEALED,
  type SizedFile,
  WORK,
} from '../events/files.ts';
import { Bucket } from './bucket.ts';

/** The object that says whose log it is. Its age shows if the writer is alive. */
const OWNER = 'log.json';
/** The file that distinguishes this machine's processes from those of another one with a copy of the store. */
const WRITER = 'writer';
/** Milliseconds without a renewal after which a writer is dead, and after which it renews. */
const TTL = 5 * 60_000;
const RENEW_AFTER = 60_000;
/** Milliseconds for which a copy stays in the folder after its last use. */
const IN_USE = 10 * 60_000;
/** Downloads at the same time. */
const AT_ONCE = 4;
/** Tries of a write that others get ahead of. */
const TRIES = 10;

/** The object that says up to which day a table was copied. */
const COPIED = 'copied.json';

const copied = z.object({ until: z.iso.date() }).nullable();
const owner = z.object({ store: z.string(), writer: z.string() });

interface Held {
  readonly writer: LogWriter;
  /** By the steady clock. */
  readonly since: number;
}

/** Files in a bucket. A folder holds copies of those that were used lately, up to `maxBytes` unless more are in use. */
export function bucketFiles(config: BucketConfig, folder: string, maxBytes: number): LogFiles {
  const bucket = new Bucket(config);
  const local = folderFiles(folder);
  const at = (name: string) => join(folder, name);
  const place = bucket.place('');
  let held: Held | null = null;

  async function claim(writer: LogWriter): Promise<void> {
    if (held !== null && systemClock.monotonic() - held.since < RENEW_AFTER) return;
    const id = writer.isShared ? '' : await ownWriter(folder);
    const known = await bucket.text(OWNER);
    const before = known === null ? null : owner.safeParse(jsonOf(known.text)).data;
    if (before && before.store !== writer.store)
      throw new RollcallError(
        'event_log_taken',
        `${place} has the log of another store (${before.store}). Name another prefix in eventLog.path.`,
      );
    if (known && before && before.writer !== id && known.age < TTL) throw taken(place);
    const since = systemClock.monotonic();
    const text = JSON.stringify({ store: writer.store, writer: id });
    const isWritten = await bucket.putText(OWNER, text, known?.etag ?? null);
    // Processes that share the store renew at the same time.
    if (!isWritten && (await bucket.text(OWNER))?.text !== text) throw taken(place);
    held = { writer, since };
  }

  /** A copy of an object, which is there at once or not at all. */
  async function download({ name, bytes }: SizedFile): Promise<'missing' | 'size' | null> {
    await mkdir(at(WORK), { recursive: true });
    const draft = join(folder, WORK, `${basename(name)}.${systemClock.token(8)}`);
    try {
      const found = await bucket.checksum(name, draft);
      if (found === null) return 'missing';
      if (found.bytes !== bytes) return 'size';
      await mkdir(dirname(at(name)), { recursive: true });
      await rename(draft, at(name));
      return null;
    } finally {
      await rm(draft, { force: true });
    }
  }

  async function replaceText(name: string, change: (before: string) => string): Promise<void> {
    for (let tries = 1; tries <= TRIES; tries += 1) {
      const known = await bucket.text(name);
      if (await bucket.putText(name, change(known?.text ?? ''), known?.etag ?? null)) return;
    }
    throw new RollcallError('bucket_failed', `${bucket.place(name)} keeps changing.`);
  }

  async function fetchOne(file: SizedFile): Promise<void> {
    const size = await stat(at(file.name)).then((found) => found.size, gone);
    const now = systemClock.now() / 1_000;
    if (size === file.bytes) return utimes(at(file.name), now, now);
    const fault = await download(file);
    // The words of DuckDB, after which the reader looks for files that replace it.
    if (fault !== null)
      throw new RollcallError(
        'bucket_failed',
        `No such file ${at(file.name)}: ${bucket.place(file.name)} is ${FAULTS[fault]}.`,
      );
  }

  return {
    ...{ folder, place, claim, traffic: bucket.traffic },
    async fetch(files) {
      const ahead = [...files];
      const work = async () => {
        for (let file = ahead.pop(); file; file = ahead.pop()) await fetchOne(file);
      };
      await Promise.all(Array.from({ length: AT_ONCE }, work));
    },
    async put(draft, name) {
      if (held !== null) await claim(held.writer);
      await bucket.upload(name, draft);
      await local.put(draft, name);
    },
    isThere: async (name) => (await bucket.find(name)) !== null,
    list: async () => (await bucket.list()).flatMap(({ key, bytes }) => namedFile(key, bytes) ?? []),
    async remove(names) {
      for (const name of names) await bucket.remove(name);
      await local.remove(names);
    },
    fault: download,
    async trim() {
      const copies = await filesIn(folder);
      let bytes = copies.reduce((sum, copy) => sum + copy.bytes, 0);
      const unused = copies.filter(({ usedAt }) => systemClock.now() - usedAt > IN_USE);
      for (const copy of unused.sort((a, b) => a.usedAt - b.usedAt)) {
        if (bytes <= maxBytes) return;
        if ((await bucket.find(copy.name))?.bytes !== copy.bytes) continue;
        await local.remove([copy.name]);
        bytes -= copy.bytes;
      }
    },
    copies: {
      until: async () => copied.parse(jsonOf((await bucket.text(COPIED))?.text ?? 'null'))?.until ?? null,
      async setUntil(day) {
        await replaceText(COPIED, () => JSON.stringify({ until: day }));
      },
      clear: async () => local.remove([...(await filesIn(folder)).map(({ name }) => name), SEALED]),
    },
    notes: async () => (await bucket.text(NOTES))?.text ?? '',
    note: (text) => replaceText(NOTES, (before) => before + text),
    async examine() {
      const began = systemClock.monotonic();
      const name = `test-${systemClock.token(8)}`;
      await bucket.putText(name, name, null);
      const isKept = (await bucket.text(name))?.text === name;
      const isGuarded = !(await bucket.putText(name, '', null));
      await bucket.remove(name);
      await bucket.list();
      const ms = Math.round(systemClock.monotonic() - began);
      if (!isKept) return [{ state: 'failed', message: `${place} does not keep what is written to it` }];
      return isGuarded
        ? [{ state: 'ok', message: `${place} can be written, read and listed: ${ms} ms for six requests` }]
        : [
            {
              state: 'failed',
              message: `${place} ignores If-None-Match, so that two writers would not notice each other`,
            },
          ];
    },
    isUsed: async () => (await bucket.find(OWNER)) !== null,
  };
}

const FAULTS = { missing: 'missing', size: 'of another size than the store knows' } as const;

const taken = (place: string) =>
  new RollcallError(
    'event_log_taken',
    `Another process writes to ${place}, with a copy of this store or on another machine. Stop it; five minutes after it has ended, this one goes on.`,
  );

async function ownWriter(folder: string): Promise<string> {
  await mkdir(folder, { recursive: true });
  const path = join(folder, WRITER);
  const file = await open(path, 'wx').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'EEXIST') return null;
    throw error;
  });
  await file?.writeFile(systemClock.token(12)).finally(() => file.close());
  return readFile(path, 'utf8');
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
