import { DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';
import type { ErrorCode } from '../../../kernel/errors.ts';
import { storeError } from '../connection.ts';
import { faults } from '../soundness.ts';

export interface CheckData {
  readonly path: string;
  readonly thorough: boolean;
}

export type CheckReply =
  | { readonly found: string | null }
  | { readonly failed: { readonly code: ErrorCode; readonly message: string } };

/** Check a whole file in a thread of its own, so that the store's thread goes on in the meantime. */
function check({ path, thorough }: CheckData): string | null {
  const database = new DatabaseSync(path, { readOnly: true, timeout: 5_000 });
  try {
    return faults({ all: (sql) => database.prepare(sql).all() }, thorough);
  } finally {
    database.close();
  }
}

function reply(data: CheckData): CheckReply {
  try {
    return { found: check(data) };
  } catch (error) {
    const { code, message } = storeError(error, data.path);
    return code === 'store_damaged' ? { found: (error as Error).message } : { failed: { code, message } };
  }
}

if (parentPort) parentPort.postMessage(reply(workerData as CheckData));
