import { closeSync, openSync, rmSync, statfsSync, statSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { RollcallError } from '../../kernel/errors.ts';
import { CHECKPOINT_AFTER, type Connection } from './connection.ts';
import type { Operation, OperationResult, VerbName } from './thread/verbs.ts';

/** Bytes reserved at most, and the part of a small disk. */
const LARGEST = 32 * 2 ** 20;
const PART = 1 / 8;
/** Space is reserved only if less than this is free. */
const LOW = 2 ** 30;
/** Free bytes below which no database can be opened. */
const NOTHING = 2 ** 17;
const CHUNK = Buffer.alloc(2 ** 18);
/**
 * A file of zeros next to the database, kept while the disk is nearly full and removed once it is full, since SQLite
 * needs room in its log even to delete. With that room delivery goes on. Intake is refused until there is enough space
 * again, on the disk or within the database file.
 */
export class Reserve {
  /** True while intake is refused. */
  isFull = false;
  private readonly file: string | null;
  private readonly folder: string;
  private isTaken: boolean;

  constructor(path: string) {
    this.file = path === ':memory:' || path === '' ? null : `${path}-reserve`;
    this.folder = dirname(path);
    this.isTaken = this.file !== null && (statSync(this.file, { throwIfNoEntry: false })?.size ?? 0) > 0;
  }

  /** Open the database, if need be with the reserved space: its log and index need room too. */
  async opening<T>(open: () => Promise<T>): Promise<T> {
    try {
      return await open();
    } catch (error) {
      if (!this.isTaken || error instanceof RollcallError) throw this.explained(error);
    }
    this.release();
    try {
      return await open();
    } catch (error) {
      throw this.explained(error);
    }
  }

  /** Replace the various errors that SQLite reports for a full disk. */
  private explained(error: unknown): unknown {
    const space = this.space();
    if (error instanceof RollcallError || !space || space.free >= NOTHING) return error;
    const { message } = error as Error;
    return new RollcallError('store_full', `The disk is full: ${message}. Free space; nothing was lost.`);
  }

  /** Reserve space in time, or detect that there is enough again. Called before each group of operations. */
  look(connection: Connection): void {
    if (this.file === null) return;
    const space = this.space();
    if (!space) return;
    const { free, size } = space;
    const wanted = Math.min(LARGEST, Math.floor(size * PART));
    if (this.isFull) {
      // Delivered messages leave pages in the file for new ones. Then only the log needs room: half the free space.
      const half = Math.min(wanted, Math.floor(free / 2));
      const isRoomInside = half >= wanted / 8 && connection.freeBytes() >= 2 * wanted;
      if ((free >= 2 * wanted || isRoomInside) && this.take(half)) this.isFull = false;
    } else if (!this.isTaken && free < LOW) {
      this.isFull = !this.take(wanted);
      connection.checkpointAfter(wanted / 8);
    } else if (this.isTaken && free >= 2 * LOW) {
      this.drop();
      connection.checkpointAfter(CHECKPOINT_AFTER);
    }
  }

  /** Give the reserved space up: the disk is full. */
  release(): void {
    if (this.file === null) return;
    this.isFull = true;
    this.drop();
  }

  /** Null if the system does not report it. */
  private space(): { readonly free: number; readonly size: number } | null {
    try {
      const { bavail, blocks, bsize } = statfsSync(this.folder);
      return { free: bavail * bsize, size: blocks * bsize };
    } catch {
      return null;
    }
  }

  /** Reserve bytes by writing them: a file with holes would reserve nothing. */
  private take(bytes: number): boolean {
    if (this.file === null) return false;
    try {
      const file = openSync(this.file, 'w');
      try {
        for (let written = 0; written < bytes; ) {
          written += writeSync(file, CHUNK, 0, Math.min(CHUNK.length, bytes - written));
        }
      } finally {
        closeSync(file);
      }
      this.isTaken = true;
    } catch {
      this.drop();
    }
    return this.isTaken;
  }

  private drop(): void {
    this.isTaken = false;
    // If it can't be removed, it keeps its space, and the store stays full.
    if (this.file !== null) rmSync(this.file, { force: true });
  }
}

/** Verbs refused while the disk is full: intake, and the checks that the store is ready for it. */
const REFUSED: ReadonlySet<VerbName> = new Set(['accept', 'ping', 'tryWrite']);
const FULL = {
  code: 'store_full',
  message: 'The disk is full: nothing is accepted until there is room. Nothing was lost.',
};

type Perform = (operations: readonly Operation[]) => Promise<readonly OperationResult[]>;

/** Perform a group of operations. If the disk fills up, release the reserve and repeat them without intake. */
export async function performInSpace(
  connection: Connection,
  reserve: Reserve,
  operations: readonly Operation[],
  perform: Perform,
): Promise<readonly OperationResult[]> {
  reserve.look(connection);
  if (reserve.isFull) return performEach(connection, operations, perform);
  const results = await perform(operations);
  if (!results.some((result) => 'code' in result && result.code === 'store_full')) return results;
  reserve.release();
  // The log must not take up the little room there is.
  connection.checkpoint();
  return performEach(connection, operations, perform);
}

/** Perform operations one by one, so that one that needs too much room fails alone, and empty the log after each. */
async function performEach(
  connection: Connection,
  operations: readonly Operation[],
  perform: Perform,
): Promise<readonly OperationResult[]> {
  const results: OperationResult[] = [];
  for (const operation of operations) {
    if ('verb' in operation && REFUSED.has(operation.verb)) results.push(FULL);
    else {
      results.push(...(await perform([operation])));
      connection.checkpoint();
    }
  }
  return results;
}
