import { DatabaseSync } from 'node:sqlite';
import { makePrivate } from './private-file.ts';

/** A lock that the system takes back when the process that has it ends, however it ends. */
export interface ProcessLock {
  readonly isHeld: boolean;
  /** False while a process has it, this one included. */
  take(): boolean;
  release(): void;
}

/** Those that are held, for as long as the process lives: one that is collected as garbage would let go of its lock. */
const held = new Set<DatabaseSync>();

/** A lock on a file of its own, by SQLite, which knows how to lock files on each system. */
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

/** For what has no file: nobody else can have it, and nobody is seen to have left it. */
export const noLock: ProcessLock = { isHeld: false, take: () => false, release() {} };
