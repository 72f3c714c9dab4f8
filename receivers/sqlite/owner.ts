import type { SqliteFile } from './file.ts';
import type { ProcessLock } from './process-lock.ts';

interface OwnerRow {
  readonly name: string;
  readonly until: number;
  /** Whether it has the lock that ends with its process. */
  readonly locked: number;
}

interface OwnerTimes {
  readonly lease: number;
  readonly now: () => number;
}

/** Who works on what is kept: one at a time, by a lease, and by a lock that shows at once when its process has ended. */
export class Owner {
  readonly #file: SqliteFile;
  readonly #lock: ProcessLock;
  readonly #lease: number;
  readonly #now: () => number;
  /** The owner that has the lock here. */
  #lockedFor: string | undefined;

  constructor(file: SqliteFile, lock: ProcessLock, { lease, now }: OwnerTimes) {
    this.#file = file;
    this.#lock = lock;
    this.#lease = lease;
    this.#now = now;
  }

  own(owner: string): boolean {
    return this.#file.transaction(() => {
      const holder = this.#file.row<OwnerRow>('select name, until, locked from owner');
      if (holder && holder.name !== owner && holder.until > this.#now()) {
        // Another one has taken over while this process was suspended: the lock is for that one now.
        if (this.#lockedFor !== undefined && this.#lockedFor !== holder.name) this.#unlock();
        // If its lock can be had, its process has ended: what it had begun need not wait for the leases.
        if (holder.locked === 0 || !this.#lock.take()) return false;
        this.#freeKept();
      }
      if (holder?.name !== owner) {
        this.#file.run('update request set crashes = crashes + 1, begun = 0 where begun = 1');
      }
      if (!this.#lock.isHeld) this.#lock.take();
      if (this.#lock.isHeld) this.#lockedFor = owner;
      const until = this.#now() + this.#lease;
      this.#file.run('insert or replace into owner values (1, ?, ?, ?)', owner, until, Number(this.#lock.isHeld));
      return true;
    });
  }

  disown(owner: string): void {
    this.#file.run('delete from owner where name = ?', owner);
    if (this.#lockedFor === owner) this.#unlock();
  }

  #unlock(): void {
    this.#lock.release();
    this.#lockedFor = undefined;
  }

  /** Ends all holds of those who worked on what is kept. */
  #freeKept(): void {
    const holders = "select holder from request where state = 'stored' and holder is not null";
    this.#file.run(`update change set holder = null, until = null where holder in (${holders})`);
    this.#file.run("update request set holder = null, until = null where state = 'stored'");
  }
}
