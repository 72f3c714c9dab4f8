import type { SqliteFile } from './file.ts';
import type { ProcessLock } from './process-lock.ts';

interface OwnerRow {
  readonly name: string;
  readonly until: number;
  /** 1 if it has the lock that ends with its process. */
  readonly locked: number;
}

interface OwnerParts {
  /** The receiver whose requests it owns. */
  readonly receiver: string;
  readonly lock: ProcessLock;
  readonly lease: number;
  readonly now: () => number;
}

/** Lets one process at a time work on a receiver's stored requests: by a lease, and by a lock that is free once its process ends. */
export class InboxOwner {
  readonly #file: SqliteFile;
  readonly #receiver: string;
  readonly #lock: ProcessLock;
  readonly #lease: number;
  readonly #now: () => number;
  /** The owner in this process that has the lock. */
  #lockedFor: string | undefined;

  constructor(file: SqliteFile, { receiver, lock, lease, now }: OwnerParts) {
    this.#file = file;
    this.#receiver = receiver;
    this.#lock = lock;
    this.#lease = lease;
    this.#now = now;
  }

  own(owner: string): boolean {
    return this.#file.transaction(() => {
      const of = 'select name, until, locked from owner where receiver = ?';
      const holder = this.#file.row<OwnerRow>(of, this.#receiver);
      if (holder && holder.name !== owner && holder.until > this.#now()) {
        // Another owner took over while this process was suspended: leave the lock to it.
        if (this.#lockedFor !== undefined && this.#lockedFor !== holder.name) this.#unlock();
        // If its lock is free, its process has ended: its requests need not wait for their leases.
        if (holder.locked === 0 || !this.#lock.take()) return false;
        this.#freeKept();
      }
      if (holder?.name !== owner) {
        this.#file.run(
          `update request set crashes = crashes + 1, begun = 0 where state = 'stored' and begun = 1 and receiver = ?`,
          this.#receiver,
        );
      }
      if (!this.#lock.isHeld) this.#lock.take();
      if (this.#lock.isHeld) this.#lockedFor = owner;
      const until = this.#now() + this.#lease;
      const row = [this.#receiver, owner, until, Number(this.#lock.isHeld)];
      this.#file.run('insert or replace into owner (receiver, name, until, locked) values (?, ?, ?, ?)', ...row);
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

  /** Ends all holds on stored requests. */
  #freeKept(): void {
    const held = "state = 'stored' and holder is not null and receiver = ?";
    const holders = `select holder from request where ${held}`;
    this.#file.run(`update change set holder = null, until = null where holder in (${holders})`, this.#receiver);
    this.#file.run(`update request set holder = null, until = null where ${held}`, this.#receiver);
  }
}
