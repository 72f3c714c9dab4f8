import { DatabaseSync } from 'node:sqlite';
import { makePrivate } from './private-file.ts';

/** A lock that the system frees when the process that has it ends, however it ends. */
export interface ProcessLock {
  readonly isHeld: boolean;
  /** False while a process has it, including this one. */
  take(): boolean;
  release(): void;
}

/** Keeps held locks alive: collecting one as garbage would free it. */
const held = new Set<DatabaseSync>();

/** A lock on a separate file, by SQLite, which knows how to lock files on each system. */
export function processLock(file: string): ProcessLock {
  let db: DatabaseSync | undefined;
  return {
    get isHeld() {
      return db !== undefined;
    },
    take() {
      if (db !== undefined) return false;
      const candidate = new DatabaseSync(file, { timeout: 0 });
      try {
        candidate.exec('begin exclusive');
      } catch {
        candidate.close();
        return false;
      }
      makePrivate(file);
      db = candidate;
      held.add(db);
      return true;
    },
    release() {
      if (db === undefined) return;
      held.delete(db);
      db.close();
      db = undefined;
    },
  };
}

/** The lock of a store without a file, which no other process can share. */
export const noLock: ProcessLock = { isHeld: false, take: () => false, release() {} };
