import { RollcallError } from '../kernel/errors.ts';

/** The account charged for a request's memory: its source or, until its key is known, the one of all strangers. */
export interface Account {
  /**
   * Refuses a request at its start if there is no room for all of it.
   *
   * @throws RollcallError `overloaded`
   */
  expect(bytes: number): void;
  /** @throws RollcallError `overloaded` if there is no room for this many more */
  charge(hold: HeldBytes, bytes: number): void;
  release(hold: HeldBytes): void;
}

/** The bytes that one request holds, as they arrive and until it is answered. */
export class HeldBytes {
  /** Written by its account. */
  bytes = 0;
  private account: Account;
  private failure: RollcallError | null = null;
  private onFailure: (error: RollcallError) => void = () => {};

  constructor(account: Account) {
    this.account = account;
    account.charge(this, 0);
  }

  /** @throws RollcallError `overloaded`, or why it was evicted */
  resize(bytes: number): void {
    if (this.failure) throw this.failure;
    this.account.charge(this, bytes - this.bytes);
    if (this.failure) throw this.failure;
  }

  /** @throws RollcallError `overloaded`, or why it was evicted */
  moveTo(account: Account): void {
    if (this.failure) throw this.failure;
    const { bytes } = this;
    this.account.release(this);
    this.account = account;
    account.charge(this, bytes);
  }

  /** Takes its memory away. The reader of the request has to give up. */
  evict(error: RollcallError): void {
    this.end();
    this.failure = error;
    this.onFailure(error);
  }

  whenEvicted(giveUp: (error: RollcallError) => void): void {
    this.onFailure = giveUp;
  }

  end(): void {
    this.account.release(this);
    this.account = NOBODY;
  }
}

const NOBODY: Account = { expect: () => {}, charge: () => {}, release: () => {} };

/** A source may hold this many times the bytes that are still free. */
const SHARE = 4;

/**
 * Bounds the memory of requests whose source is known. A source may hold four times what is free: one that floods gets 80 %,
 * two get 44 % each, and there is always room for another.
 */
export class Pressure {
  private readonly maxBytes: number;
  private readonly accounts = new Map<string, SourceAccount>();
  private held = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  account(source: string): SourceAccount {
    let account = this.accounts.get(source);
    if (account === undefined) {
      account = new SourceAccount(this);
      this.accounts.set(source, account);
    }
    return account;
  }

  hasRoom(held: number, more: number): boolean {
    return held + more <= SHARE * (this.maxBytes - this.held - more);
  }

  add(bytes: number): void {
    this.held += bytes;
  }
}

class SourceAccount implements Account {
  private readonly pressure: Pressure;
  private held = 0;

  constructor(pressure: Pressure) {
    this.pressure = pressure;
  }

  expect(bytes: number): void {
    if (!this.pressure.hasRoom(this.held, bytes)) {
      throw new RollcallError('overloaded', 'Too many requests are waiting; try again.');
    }
  }

  charge(hold: HeldBytes, bytes: number): void {
    if (bytes > 0) this.expect(bytes);
    this.add(hold, bytes);
  }

  release(hold: HeldBytes): void {
    this.add(hold, -hold.bytes);
  }

  private add(hold: HeldBytes, bytes: number): void {
    hold.bytes += bytes;
    this.held += bytes;
    this.pressure.add(bytes);
  }
}
