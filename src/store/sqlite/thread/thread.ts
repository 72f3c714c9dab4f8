import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import type { ErrorCode } from '../../../kernel/errors.ts';
import { type Armed, armFailpoint, failpoint } from '../../../kernel/failpoint.ts';
import { type StartTime, startTime } from '../clock.ts';
import { Connection, storeError } from '../connection.ts';
import { checkFiles, markFile } from '../files.ts';
import { migrate } from '../migrate.ts';
import { OpenFiles } from '../open-files.ts';
import { acceptAll } from '../queue/accept.ts';
import { performInSpace, Reserve } from '../reserve.ts';
import { quickLook } from '../soundness.ts';
import { GROUP_WEIGHT, HEAVY, type OperationGroup } from './group.ts';
import { type Operation, type OperationResult, perform, type VerbArguments, type VerbName } from './verbs.ts';

export interface ThreadData {
  readonly path: string;
  /** Used only if the database is new. */
  readonly identity: { readonly store: string; readonly suppressionKey: string };
  readonly failpoint: Armed | null;
}

export type ThreadRequest = OperationGroup | 'scrub' | 'close';
export type ThreadReply =
  /** `damage` describes the damage; a damaged store is not written. */
  | { readonly opened: { readonly store: string; readonly time: StartTime; readonly damage: string | null } }
  | { readonly failed: { readonly code: ErrorCode; readonly message: string } }
  /** Results of this many groups in one commit. With `needsSync` it must be on disk before it is answered. */
  | { readonly results: readonly OperationResult[]; readonly groups: number; readonly needsSync: boolean }
  /** Null after success. */
  | { readonly scrubbed: { readonly code: ErrorCode; readonly message: string } | null }
  /** The database's files are no longer in their place, so that nothing written to them counts. */
  | { readonly lost: string };

/**
 * Serve the store in a thread of its own, since SQLite is synchronous: neither a write to disk nor a wait for another
 * process's lock may stop the event loop. Requests that arrive during a transaction share the next one (group commit).
 */
export async function serve(port: MessagePort, data: ThreadData): Promise<void> {
  if (data.failpoint) armFailpoint(data.failpoint.name, data.failpoint.passes, data.failpoint.fault);
  const reserve = new Reserve(data.path);
  let connection: Connection;
  let files: OpenFiles;
  try {
    checkFiles(data.path);
    const opened = await reserve.opening(() => openConnection(data));
    connection = opened.connection;
    // A damaged store takes nothing that could be lost with it.
    files = new OpenFiles('opened' in opened.reply && opened.reply.opened.damage === null ? data.path : ':memory:');
    port.postMessage(opened.reply);
  } catch (error) {
    const { code, message } = storeError(error, data.path);
    port.postMessage({ failed: { code, message } } satisfies ThreadReply);
    return;
  }
  const isInPlace = () => {
    const lost = files.lost();
    if (lost) port.postMessage({ lost: lost.message } satisfies ThreadReply);
    return lost === null;
  };
  const waiting: ThreadRequest[] = [];
  const write = async (groups: readonly OperationGroup[]) => {
    const operations = groups.flatMap((group) => group.operations);
    const needsSync = groups.some((group) => group.needsSync);
    const isSynced = needsSync && weightOf(groups) < HEAVY;
    const results = await performInSpace(connection, reserve, operations, (some) =>
      performAll(connection, data.path, some, isSynced),
    );
    const reply = { results, groups: groups.length, needsSync: needsSync && !isSynced } satisfies ThreadReply;
    if (isInPlace()) port.postMessage(reply);
  };
  const work = async () => {
    for (let request = next(port, waiting); request !== undefined; request = next(port, waiting)) {
      if (request === 'close') {
        isInPlace();
        connection.close();
        port.close();
        return;
      }
      if (request === 'scrub') port.postMessage({ scrubbed: scrub(connection) } satisfies ThreadReply);
      else await write(groupsFrom(request, waiting));
    }
  };
  let last = Promise.resolve();
  port.on('message', (request: ThreadRequest) => {
    waiting.push(request);
    // One after the other. A failure here ends the thread, as nobody handles it.
    last = last.then(work);
  });
}

/** Read the port directly: messages that arrived during a transaction would be delivered one by one. */
function next(port: MessagePort, waiting: ThreadRequest[]): ThreadRequest | undefined {
  for (let more = receiveMessageOnPort(port); more !== undefined; more = receiveMessageOnPort(port)) {
    waiting.push(more.message as ThreadRequest);
  }
  return waiting.shift();
}

/** Take the groups that share a commit with the first off the queue. */
function groupsFrom(first: OperationGroup, waiting: ThreadRequest[]): readonly OperationGroup[] {
  const groups = [first];
  for (
    let [more] = waiting;
    typeof more === 'object' && weightOf(groups) + more.weight <= GROUP_WEIGHT;
    [more] = waiting
  ) {
    groups.push(more);
    waiting.shift();
  }
  return groups;
}

const weightOf = (groups: readonly OperationGroup[]) => groups.reduce((sum, { weight }) => sum + weight, 0);

async function openConnection(data: ThreadData): Promise<{ connection: Connection; reply: ThreadReply }> {
  const connection = new Connection(data.path);
  try {
    return { connection, reply: await open(connection, data) };
  } catch (error) {
    connection.close();
    throw error;
  }
}

async function open(connection: Connection, { path, identity }: ThreadData): Promise<ThreadReply> {
  const damage = quickLook(connection, path);
  if (damage !== null) return openDamaged(connection, damage);
  await migrate(connection);
  await connection.transaction(() => {
    if (connection.meta('store') !== null) return;
    connection.setMeta('store', identity.store);
    connection.setMeta('suppression_key', identity.suppressionKey);
  });
  const store = connection.meta('store') ?? '';
  markFile(path, store);
  return { opened: { store, time: startTime(connection), damage } };
}

/** Open a damaged database for reading only, so that people can see what there is. */
function openDamaged(connection: Connection, damage: string): ThreadReply {
  const time: StartTime = { kept: null, isServed: false, newest: 0 };
  try {
    return { opened: { store: connection.meta('store') ?? '', time, damage } };
  } catch {
    return { opened: { store: '', time, damage } };
  }
}

/** Remove traces of deleted rows, outside of any transaction. */
function scrub(connection: Connection): { readonly code: ErrorCode; readonly message: string } | null {
  try {
    connection.scrub();
    return null;
  } catch (error) {
    const { code, message } = storeError(error);
    return { code, message };
  }
}

/** Perform operations in one commit. A refused operation undoes only itself. */
async function performAll(
  connection: Connection,
  path: string,
  operations: readonly Operation[],
  isSynced: boolean,
): Promise<OperationResult[]> {
  try {
    const results = await connection.transaction(async () => {
      const done: OperationResult[] = [];
      for (let at = 0; at < operations.length; ) {
        const accepts = plainAccepts(operations, at);
        if (accepts.length > 0) done.push(...acceptAll(connection, accepts).map((value) => ({ value })));
        else done.push(await performOne(connection, path, operations[at] as Operation));
        at += Math.max(1, accepts.length);
      }
      failpoint('commit');
      return done;
    }, isSynced);
    connection.tidy();
    return results;
  } catch (error) {
    const { code, message } = storeError(error, path);
    return operations.map(() => ({ code, message }));
  }
}

/** Collect consecutive accepts that nothing can refuse: they need no savepoints and share their statements. */
function plainAccepts(operations: readonly Operation[], from: number) {
  const accepts: { now: number; request: VerbArguments<'accept'>[0] }[] = [];
  for (let at = from; at < operations.length; at += 1) {
    const operation = operations[at] as Operation;
    if (!('verb' in operation) || operation.verb !== 'accept') break;
    const [request] = operation.args as VerbArguments<'accept'>;
    if (request.step !== null || request.live) break;
    accepts.push({ now: operation.now, request });
  }
  return accepts;
}

/** Frequent verbs. Never refused, they need no savepoint, for which SQLite copies each page changed after it. */
const NEVER_REFUSED: ReadonlySet<VerbName> = new Set(['claim', 'settle']);
const REFUSALS = new Set<ErrorCode>(['fence_lost', 'epoch_moved', 'unknown_run', 'live_moved']);

async function performOne(connection: Connection, path: string, operation: Operation): Promise<OperationResult> {
  if ('verb' in operation && NEVER_REFUSED.has(operation.verb)) return { value: await perform(connection, operation) };
  try {
    return { value: await connection.savepoint(() => perform(connection, operation)) };
  } catch (error) {
    const { code, message } = storeError(error, path);
    if (!REFUSALS.has(code)) throw error;
    return { code, message };
  }
}

// Without data, this is another module's thread.
if (parentPort && workerData) await serve(parentPort, workerData as ThreadData);
