import { constants, copyFile, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, relative } from 'node:path';
import { backup as copyDatabase, DatabaseSync } from 'node:sqlite';
import type { Clock } from '../../kernel/clock.ts';
import { RollcallError } from '../../kernel/errors.ts';
import { type Lease, waitForLease } from '../../kernel/keep-lease.ts';
import { EVENT_LOG_LEASE } from '../event-log.ts';
import type { LogFiles } from '../events/files.ts';
import type { Fence, Store } from '../port.ts';
import { linked } from '../sqlite/files.ts';
import { IDS_AHEAD } from './ids-ahead.ts';

const USE_PG_DUMP =
  'A Postgres store is backed up with pg_dump or a snapshot of the database, not by this command. Afterwards: rollcall migrate --restored (docs/deployment.md#backup-and-restore).';

export interface EngineFile {
  readonly path: string;
  /** Do the work while nobody can write to the file. */
  hold(work: () => Promise<void>): Promise<void>;
}

interface BackupOptions {
  readonly url: string;
  readonly engines: readonly EngineFile[];
  /** The open store, used to hold back syncs. */
  readonly store: Pick<Store, 'takeLease' | 'renewLease' | 'releaseLease'>;
  /** The event log's files, if any. */
  readonly eventLog?: LogFiles | null;
  /** Keys of all audiences and traits. */
  readonly keys: readonly string[];
  /** The configuration's folder: files below it keep their places in the copy. */
  readonly base: string;
  /** Must be new or empty, or a link to such a folder. It receives all files or none. */
  readonly folder: string;
  readonly clock: Clock;
  /** Called with the name of what the backup waits for: a sync, or another backup. */
  readonly onWait?: (what: string) => void;
}

/** Longest wait for a running sync, in milliseconds, and the time between checks. */
const PATIENCE = 10 * 60_000;
const ASK_EVERY = 500;
const SQLITE_FULL = 13;
/** More pages than a database can have: one step, since a change between steps would start the copy over. */
const ALL_PAGES = 0x7fff_ffff;

/**
 * Copy a SQLite store and engine files while everything runs; resolves to their places in `folder`. No sync runs in the
 * meantime, so the snapshots match the versions that the store knows; intake and delivery go on. To restore, put the
 * store's file back in its place.
 *
 * @throws RollcallError `run_in_progress` when a sync or another backup does not end in time; `bad_usage` for a
 *   Postgres store, when `folder` is in use or a mount point, or there is nothing to copy; `fence_lost` when a sync
 *   began nevertheless; `engine_unreachable` when an engine's file is in use; `store_failed` when a database can't be
 *   read or the copy not written
 */
export async function backup(given: BackupOptions): Promise<readonly string[]> {
  if (!given.url.startsWith('sqlite:')) throw new RollcallError('bad_usage', USE_PG_DUMP);
  const options = { ...given, folder: linked(given.folder) };
  const copies = placesOf(options);
  if (copies.length === 0) {
    throw new RollcallError('bad_usage', 'There is nothing to copy.');
  }
  await refuseUnlessEmpty(options.folder);
  const late = 'Another backup has been running for ten minutes; back up later.';
  const lease = await leaseFor(options, 'backup', late, () => options.onWait?.('another backup'));
  return backupAlone(copies, options, lease).finally(() => lease.release());
}

/** Back up under the lease: another backup to the same folder would remove what this one has copied so far. */
async function backupAlone(
  copies: readonly Copy[],
  options: BackupOptions,
  lease: Lease<Fence>,
): Promise<readonly string[]> {
  const { folder } = options;
  // Another backup may have written there during the wait.
  await refuseUnlessEmpty(folder);
  const partial = `${folder}.partial`;
  await rm(partial, { recursive: true, force: true });
  try {
    await refuseMountPoint(folder, partial);
    const written = await withoutSyncs(options, async () => {
      const files: string[] = [];
      for (const copy of copies) files.push(...(await copy(partial)));
      return files;
    });
    await lease.confirm();
    await rename(partial, folder);
    return written;
  } catch (error) {
    throw copyFailure(error);
  } finally {
    // Without the lease the folder may be another backup's by now. The next backup clears what is left.
    await lease.confirm().then(
      () => rm(partial, { recursive: true, force: true }),
      () => {},
    );
  }
}

/** Wrap failures of a disk or a folder in our own errors. Anything else is a bug of ours and stays as it is. */
function copyFailure(error: unknown): unknown {
  if (error instanceof RollcallError || !(error instanceof Error)) return error;
  const { code, errcode, syscall } = error as NodeJS.ErrnoException & { readonly errcode?: number };
  const isFull = code === 'ENOSPC' || code === 'EDQUOT' || errcode === SQLITE_FULL;
  if (!isFull && syscall === undefined) return error;
  const message = isFull ? 'There is no room for the copy.' : `The copy can't be made: ${error.message}.`;
  return new RollcallError('store_failed', message, { cause: error });
}

/** Copies one item into a folder; resolves to the files' places in it. */
type Copy = (folder: string) => Promise<readonly string[]>;

/** The store first: data it knows to be erased from an engine must be missing in the engine's copy. */
function placesOf(options: BackupOptions): readonly Copy[] {
  const { url, engines, base } = options;
  const taken = new Map<string, string>();
  const placeOf = (path: string) => {
    const inside = relative(base, path);
    const place = inside.startsWith('..') || isAbsolute(inside) ? basename(path) : inside;
    const other = taken.get(place);
    if (other !== undefined)
      throw new RollcallError('bad_usage', `${path} and ${other} would be the same file in the backup.`);
    taken.set(place, path);
    return place;
  };
  const ofStore = (): readonly Copy[] => {
    const path = url.slice('sqlite:'.length);
    if (path === ':memory:') return [];
    const place = placeOf(path);
    const { eventLog = null } = options;
    const copy: Copy = (folder) => copyStore(path, folder, place);
    if (eventLog === null) return [copy];
    const logPlace = placeOf(eventLog.folder);
    return [
      (folder) =>
        withoutSealing(options, async () => [
          ...(await copy(folder)),
          ...(await copyLog(eventLog, folder, place, logPlace)),
        ]),
    ];
  };
  return [
    ...ofStore(),
    ...engines.map((engine): Copy => {
      const place = placeOf(engine.path);
      return (folder) => copyEngine(engine, folder, place);
    }),
  ];
}

async function refuseUnlessEmpty(folder: string): Promise<void> {
  const files = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw new RollcallError('bad_usage', `${folder} can't be written to: ${error.message}`);
  });
  if (files.length > 0) throw new RollcallError('bad_usage', `${folder} is not empty.`);
}

/** Refuse a mount point: moving the copy to its place would only fail at the end. */
async function refuseMountPoint(folder: string, aside: string): Promise<void> {
  try {
    await rename(folder, aside);
    await rename(aside, folder);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EBUSY')
      throw new RollcallError(
        'bad_usage',
        `${folder} is a mount point, whose place no copy can take. Name a folder in it.`,
      );
    if (code !== 'ENOENT') throw error;
  }
}

/** Do the work under the leases of all syncs, and check that they were held all the time. */
async function withoutSyncs<T>(options: BackupOptions, work: () => Promise<T>): Promise<T> {
  const leases: Lease<Fence>[] = [];
  try {
    for (const key of options.keys.toSorted()) {
      const late = `The sync of ${key} has been running for ten minutes; back up later.`;
      leases.push(await leaseFor(options, `sync:${key}`, late, () => options.onWait?.(`the sync of ${key}`)));
    }
    const result = await work();
    for (const lease of leases) await lease.confirm();
    return result;
  } finally {
    await Promise.all(leases.map((lease) => lease.release()));
  }
}

/** Do the work while no process seals, merges or deletes files, so that the files match the store's copy. */
async function withoutSealing<T>(options: BackupOptions, work: () => Promise<T>): Promise<T> {
  const late = 'The event log has been worked on for ten minutes; back up later.';
  const lease = await leaseFor(options, EVENT_LOG_LEASE, late);
  return work().finally(() => lease.release());
}

/** @throws RollcallError `run_in_progress` with the message `late`, when others keep it for too long */
async function leaseFor(
  { store, clock }: BackupOptions,
  name: string,
  late: string,
  onWait?: () => void,
): Promise<Lease<Fence>> {
  const lease = await waitForLease(store, clock, name, { patience: PATIENCE, askEvery: ASK_EVERY, onWait });
  if (lease) return lease;
  throw new RollcallError('run_in_progress', late);
}

/** Copy the store by SQLite's online backup, which is consistent whatever is written during it. */
async function copyStore(path: string, folder: string, place: string): Promise<readonly string[]> {
  const target = join(folder, place);
  await mkdir(dirname(target), { recursive: true });
  const source = new DatabaseSync(path, { readOnly: true });
  try {
    await copyDatabase(source, target, { rate: ALL_PAGES });
  } finally {
    source.close();
  }
  const copy = new DatabaseSync(target);
  try {
    copy.exec(`INSERT INTO sqlite_sequence SELECT 'delivery', 0
      WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'delivery')`);
    copy.exec(`UPDATE sqlite_sequence SET seq = seq + ${IDS_AHEAD} WHERE name = 'delivery'`);
    // So a log next to the restored file can be recognised as another file's.
    copy.exec('PRAGMA journal_mode = DELETE');
  } finally {
    copy.close();
  }
  await persist(target);
  return [place];
}

/** Copy the files of the event log that the copy of a store names. */
async function copyLog(log: LogFiles, folder: string, store: string, place: string): Promise<readonly string[]> {
  const copy = new DatabaseSync(join(folder, store), { readOnly: true });
  const files = copy
    .prepare('SELECT name, bytes FROM event_file')
    .all()
    .map(({ name, bytes }) => ({ name: String(name), bytes: Number(bytes) }));
  copy.close();
  for (const file of files) {
    const target = join(folder, place, file.name);
    await mkdir(dirname(target), { recursive: true });
    await log.fetch([file]);
    await copyFile(join(log.folder, file.name), target, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
    await persist(target);
  }
  return files.length === 0 ? [] : [`${place}/`];
}

/** A log next to the file is from a killed process. It is copied first, as closing the file ends the hold on it. */
async function copyEngine({ path, hold }: EngineFile, folder: string, place: string): Promise<readonly string[]> {
  const written: string[] = [];
  if (!(await exists(path))) return written;
  await hold(async () => {
    for (const suffix of ['.wal', '']) {
      if (!(await exists(path + suffix))) continue;
      const target = join(folder, place + suffix);
      await mkdir(dirname(target), { recursive: true });
      await copyFile(path + suffix, target, constants.COPYFILE_EXCL);
      await persist(target);
      written.push(place + suffix);
    }
  });
  return written;
}

/** Sync a copy to disk before it gets its name. It may have taken over the mode of an older, more open file. */
async function persist(path: string): Promise<void> {
  const file = await open(path);
  await file.chmod((await file.stat()).mode & ~process.umask());
  await file.sync();
  await file.close();
}

const exists = (path: string) =>
  stat(path).then(
    () => true,
    () => false,
  );
