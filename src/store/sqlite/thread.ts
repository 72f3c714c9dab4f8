import { parentPort, workerData } from 'node:worker_threads';
import type { ErrorCode } from '../../errors.ts';
import { type Armed, armFailpoint, failpoint } from '../../failpoint.ts';
import { type StartTime, startTime } from './clock.ts';
import { Connection, storeError } from './connection.ts';
import { checkFiles, markFile } from './files.ts';
import { migrate } from './migrate.ts';
import { performInSpace, Reserve } from './reserve.ts';
import { quickLook } from './soundness.ts';
import { type Operation, type OperationResult, verbs } from './verbs.ts';

/** What the thread is started with. */
export interface ThreadData {
  readonly path: string;
  /** Used if the database is new. */
  readonly identity: { readonly store: string; readonly suppressionKey: string };
  readonly failpoint: Armed | null;
}

export type ThreadRequest = { readonly operations: readonly Operation[] } | 'scrub' | 'close';
export type ThreadReply =
  /** `damage` says what is damaged: then nothing is written. */
  | { readonly opened: { readonly store: string; readonly time: StartTime; readonly damage: string | null } }
  | { readonly failed: { readonly code: ErrorCode; readonly message: string } }
  | { readonly results: readonly OperationResult[] }
  /** Null when it was done. */
  | { readonly scrubbed: { readonly code: ErrorCode; readonly message: string } | null };

/**
 * SQLite is synchronous, so it lives in a thread of its own: neither a sync to disk nor a wait for another process's
 * lock ever stops the event loop. Whatever came in while one transaction ran is done in the next (group commit).
 */
function serve(port: NonNullable<typeof parentPort>, data: ThreadData): void {
  if (data.failpoint) armFailpoint(data.failpoint.name, data.failpoint.passes, data.failpoint.fault);
  const reserve = new Reserve(data.path);
  let connection: Connection;
  try {
    checkFiles(data.path);
    const opened = reserve.opening(() => {
      const connection = new Connection(data.path);
      return { connection, reply: open(connection, data) };
    });
    connection = opened.connection;
    port.postMessage(opened.reply);
  } catch (error) {
    const { code, message } = storeError(error, data.path);
    port.postMessage({ failed: { code, message } } satisfies ThreadReply);
    return;
  }
  port.on('message', (request: ThreadRequest) => {
    if (request === 'close') {
      connection.close();
      port.close();
      return;
    }
    if (request === 'scrub') {
      port.postMessage({ scrubbed: scrub(connection) } satisfies ThreadReply);
      return;
    }
    const perform = (some: readonly Operation[]) => performAll(connection, data.path, some);
    const results = performInSpace(connection, reserve, request.operations, perform);
    port.postMessage({ results } satisfies ThreadReply);
  });
}

function open(connection: Connection, { path, identity }: ThreadData): ThreadReply {
  const damage = quickLook(connection, path);
  if (damage !== null) return openDamaged(connection, damage);
  migrate(connection);
  connection.transaction(() => {
    if (connection.meta('store') !== null) return;
    connection.setMeta('store', identity.store);
    connection.setMeta('suppression_key', identity.suppressionKey);
  });
  const store = connection.meta('store') ?? '';
  markFile(path, store);
  return { opened: { store, time: startTime(connection), damage } };
}

/** For reading only, so that people can see what there is. */
function openDamaged(connection: Connection, damage: string): ThreadReply {
  const time: StartTime = { kept: null, isServed: false, newest: 0 };
  try {
    return { opened: { store: connection.meta('store') ?? '', time, damage } };
  } catch {
    return { opened: { store: '', time, damage } };
  }
}

/** Outside of any transaction. */
function scrub(connection: Connection): { readonly code: ErrorCode; readonly message: string } | null {
  try {
    connection.scrub();
    return null;
  } catch (error) {
    const { code, message } = storeError(error);
    return { code, message };
  }
}

/** All operations share one commit; an operation that is refused undoes itself only. */
function performAll(connection: Connection, path: string, operations: readonly Operation[]): OperationResult[] {
  try {
    const results = connection.transaction(() => {
      const done = operations.map((operation) => performOne(connection, path, operation));
      failpoint('commit');
      return done;
    });
    connection.tidy();
    return results;
  } catch (error) {
    const { code, message } = storeError(error, path);
    return operations.map(() => ({ code, message }));
  }
}

const REFUSALS = new Set<ErrorCode>(['fence_lost', 'epoch_moved', 'unknown_run']);

function performOne(connection: Connection, path: string, { verb, now, args }: Operation): OperationResult {
  try {
    const work = verbs[verb] as (db: Connection, now: number, args: unknown) => unknown;
    return { value: connection.savepoint(() => work(connection, now, args)) };
  } catch (error) {
    const { code, message } = storeError(error, path);
    if (!REFUSALS.has(code)) throw error;
    return { code, message };
  }
}

if (parentPort) serve(parentPort, workerData as ThreadData);
