import { constants, copyFile, mkdir, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { backup as copyDatabase, DatabaseSync } from 'node:sqlite';
import type { Clock } from '../clock.ts';
import { RollcallError } from '../errors.ts';
import type { Fence, Store } from './port.ts';

export interface BackupOptions {
  /** The store's URLs; only SQLite files are copied, Postgres has tools of its own. */
  readonly urls: readonly string[];
  /** Files of embedded engines. */
  readonly engines: readonly string[];
  /** The store, open, to hold back syncs with. */
  readonly store: Pick<Store, 'takeLease' | 'renewLease' | 'releaseLease'>;
  /** Keys of all audiences and traits. */
  readonly keys: readonly string[];
  /** Made if need be. Files that it holds are not written over. */
  readonly folder: string;
  readonly clock: Clock;
}

const TTL = 30_000;
const RENEW_EVERY = 10_000;
/** How long a sync that runs is waited for, in milliseconds, asking this often. */
const PATIENCE = 10 * 60_000;
const ASK_EVERY = 500;

/**
 * Copies store and engine files while everything runs; resolves to the files written. No sync runs meanwhile, so that the
 * snapshots and the versions that the store knows belong together; intake and delivery go on.
 *
 * @throws RollcallError `run_in_progress` when a sync does not end in time; `bad_usage` when a file is there already
 */
export async function backup({ urls, engines, store, keys, folder, clock }: BackupOptions): Promise<readonly string[]> {
  await mkdir(folder, { recursive: true });
  const fences: Fence[] = [];
  let cancel = () => {};
  const renew = () => {
    cancel = clock.after(RENEW_EVERY, () => {
      for (const fence of fences) store.renewLease(fence, TTL).catch(() => undefined);
      renew();
    });
  };
  renew();
  try {
    for (const key of keys.toSorted()) fences.push(await waitForLease(store, clock, `sync:${key}`));
    const written: string[] = [];
    for (const url of urls) if (url.startsWith('sqlite:')) written.push(await copyStore(url.slice(7), folder));
    for (const file of engines) written.push(...(await copyEngine(file, folder)));
    return written;
  } finally {
    cancel();
    await Promise.all(fences.map((fence) => store.releaseLease(fence)));
  }
}

async function waitForLease(store: BackupOptions['store'], clock: Clock, lease: string): Promise<Fence> {
  for (const until = clock.monotonic() + PATIENCE; clock.monotonic() < until; ) {
    const fence = await store.takeLease(lease, TTL);
    if (fence) return fence;
    await new Promise<void>((resolve) => clock.after(ASK_EVERY, resolve));
  }
  throw new RollcallError('run_in_progress', `${lease} has been running for ten minutes; back up later.`);
}

/** SQLite's online backup: a consistent copy, whatever is written meanwhile. */
async function copyStore(path: string, folder: string): Promise<string> {
  const target = join(folder, basename(path));
  await refuseIfThere(target);
  const source = new DatabaseSync(path, { readOnly: true });
  try {
    await copyDatabase(source, target, { rate: 10_000 });
  } finally {
    source.close();
  }
  return target;
}

/** DuckDB's file is open only while a run needs it, and none does now. */
async function copyEngine(path: string, folder: string): Promise<string[]> {
  const written: string[] = [];
  for (const file of [path, `${path}.wal`]) {
    if (!(await exists(file))) continue;
    const target = join(folder, basename(file));
    await refuseIfThere(target);
    await copyFile(file, target, constants.COPYFILE_EXCL);
    written.push(target);
  }
  return written;
}

async function refuseIfThere(target: string): Promise<void> {
  if (await exists(target)) throw new RollcallError('bad_usage', `${target} is there already.`);
}

const exists = (path: string) =>
  stat(path).then(
    () => true,
    () => false,
  );
