import { RollcallError } from '../kernel/errors.ts';
import type { CutReason } from './refusals.ts';

export interface MemoryLimits {
  /** Bytes of all bodies whose sender is known, from their arrival until they are answered. */
  readonly pendingBytes: number;
  /** Bytes of all bodies whose sender has shown no valid key or token yet. A client may have a quarter of them. */
  readonly strangerBytes: number;
  /** Bytes of large answers that were not read yet. A connection with several may have a sixteenth of them. */
  readonly unreadBytes: number;
}

/** The memory that one request holds until it is answered, and its answer until that is read. */
export interface Holding {
  readonly client: string;
  /** Null until a valid key or token was shown. */
  owner: string | null;
  body: number;
  answer: number;
  isOver: boolean;
  /** Cuts the connection. */
  readonly cut: (reason: CutReason) => void;
}

/** An owner may hold this many times the bytes that are still free. */
const SHARE = 4;

/**
 * Bounds the memory of requests. Owners get a share of what is free: one that floods gets 80 %, two get 44 % each, and there
 * is always room for another. A stranger's request is never refused for lack of room: the one that holds on longest is cut.
 */
export class RequestMemory {
  private readonly limits: MemoryLimits;
  /** Bytes of bodies by owner, and by the clients of strangers. */
  private readonly byOwner = new Map<string, number>();
  private readonly byClient = new Map<string, number>();
  private known = 0;
  private strange = 0;
  private unread = 0;
  /** The oldest first. */
  private readonly strangers = new Set<Holding>();
  private readonly answers = new Set<Holding>();

  constructor(limits: MemoryLimits) {
    this.limits = limits;
  }

  /** @throws RollcallError `overloaded` if there is no room for this many more bytes of an owner */
  expect({ owner }: Holding, bytes: number): void {
    if (owner === null || bytes <= 0) return;
    const free = this.limits.pendingBytes - this.known - bytes;
    if ((this.byOwner.get(owner) ?? 0) + bytes > SHARE * free) {
      throw new RollcallError('overloaded', 'Too many requests are waiting; try again.');
    }
  }

  /** @throws RollcallError `overloaded` */
  resize(holding: Holding, bytes: number): void {
    this.expect(holding, bytes - holding.body);
    this.charge(holding, bytes - holding.body);
    if (holding.owner !== null) return;
    const { strangerBytes } = this.limits;
    this.cutStrangers(({ client }) => client === holding.client && this.byClient.get(client)! > strangerBytes / 4);
    this.cutStrangers(() => this.strange > strangerBytes);
  }

  /** @throws RollcallError `overloaded` */
  believe(holding: Holding, owner: string): void {
    const { body } = holding;
    this.charge(holding, -body);
    holding.owner = owner;
    this.resize(holding, body);
  }

  /** Charges an answer that is being sent. */
  answer(holding: Holding, bytes: number, ofConnection: Iterable<Holding>): void {
    if (holding.isOver) return;
    holding.answer = bytes;
    this.unread += bytes;
    this.answers.add(holding);
    const unread = [...ofConnection].filter(({ answer }) => answer > 0);
    const sum = unread.reduce((bytes, { answer }) => bytes + answer, 0);
    if (unread.length > 1 && sum > this.limits.unreadBytes / 16) holding.cut('unread');
    for (const oldest of this.answers) {
      if (this.unread <= this.limits.unreadBytes || oldest === holding) break;
      this.release(oldest);
      oldest.cut('unread');
    }
  }

  end(holding: Holding): void {
    this.release(holding);
    holding.isOver = true;
  }

  private release(holding: Holding): void {
    this.charge(holding, -holding.body);
    if (this.answers.delete(holding)) this.unread -= holding.answer;
  }

  private charge(holding: Holding, bytes: number): void {
    if (holding.isOver || bytes === 0) return;
    holding.body += bytes;
    const { owner, client, body } = holding;
    if (owner !== null) {
      this.known += bytes;
      add(this.byOwner, owner, bytes);
      return;
    }
    this.strange += bytes;
    add(this.byClient, client, bytes);
    if (body > 0) this.strangers.add(holding);
    else this.strangers.delete(holding);
  }

  private cutStrangers(isTooMuch: (holding: Holding) => boolean): void {
    for (const oldest of this.strangers) {
      if (!isTooMuch(oldest)) continue;
      this.release(oldest);
      oldest.cut('bodies');
    }
  }
}

export function add(sums: Map<string, number>, key: string, more: number): number {
  const sum = (sums.get(key) ?? 0) + more;
  if (sum === 0) sums.delete(key);
  else sums.set(key, sum);
  return sum;
}
