import { setTimeout as pause } from 'node:timers/promises';
import type { RegulationStatus } from '../../src/store/port.ts';
import type { Arrival } from './ledger.ts';
import { PARITY } from './parity.ts';

export type ForgetType = 'DELETE_ONLY' | 'SUPPRESS_WITH_DELETE';

interface Request {
  readonly user: string;
  readonly type: ForgetType;
  /** Before it was filed. */
  readonly filedAt: number;
  readonly id: string;
  status: RegulationStatus | null;
  /** When it was seen to be over. */
  overAt: number;
}

interface DeletionParts {
  /** Messages about users who may be deleted; it grows. */
  readonly arrivals: readonly Arrival[];
  /** When stopped processes went on. */
  readonly wakes: readonly number[];
  /** A whole number from 1 to `most`. */
  readonly random: (most: number) => number;
  /** Resolves to the request's id; null if the member died over it, or did not answer. */
  readonly file: (users: readonly string[], type: ForgetType) => Promise<string | null>;
  /** Null while the database does not answer. */
  readonly statusOf: (id: string) => Promise<RegulationStatus | null>;
}

/** Results of the requests; all but the first two must be 0. */
export interface DeletionReport {
  requests: number;
  /** Users who had been told of before, and whose deletion had to be told. */
  told: number;
  unfinished: number;
  /** Posts, after a request was over, of what was computed before it was filed. */
  late: number;
  /** Posts, after a request was over, about users who are suppressed. */
  suppressed: number;
  /** Users told of whose deletion was not. */
  untold: number;
}

const VICTIMS = Array.from({ length: PARITY.victims }, (_, n) => `v${n + 1}`);
/** How long after it went on a process may still end what it was about, in milliseconds. */
const WAKING = 500;
/** Requests at least, however slow the machine. */
const LEAST = 4;
const isOver = (status: RegulationStatus | null) => status !== null && status !== 'INITIALIZED' && status !== 'RUNNING';

/** Has users deleted while a cluster works and breaks, each once; what arrives about them is judged at the end. */
export class Deletions {
  private readonly parts: DeletionParts;
  private readonly left = [...VICTIMS];
  private readonly requests: Request[] = [];
  private readonly watched: Promise<void>[] = [];

  constructor(parts: DeletionParts) {
    this.parts = parts;
  }

  /** Somebody who has not been deleted yet, or has. */
  get someone(): string {
    return VICTIMS[this.parts.random(VICTIMS.length) - 1] ?? 'v1';
  }

  async keepFiling(isOver: () => boolean, every: number): Promise<void> {
    while ((!isOver() || this.requests.length < LEAST) && this.left.length > 0) {
      await pause(every);
      if (this.parts.arrivals.some(({ entered }) => entered)) await this.fileOne();
    }
  }

  /** Resolves once all requests are over, or patience is. */
  async settle(patience: number): Promise<void> {
    await Promise.race([Promise.all(this.watched), pause(patience, undefined, { ref: false })]);
  }

  report(): DeletionReport {
    const { arrivals, wakes } = this.parts;
    // A post that was under way when its process was stopped goes on with it.
    const isFromWaking = (at: number) => wakes.some((wake) => wake <= at && at < wake + WAKING);
    const over = this.requests.filter(({ status }) => status === 'FINISHED');
    const of = ({ user }: Request) => arrivals.filter((arrival) => arrival.user === user);
    const posts = (request: Request) =>
      of(request).filter(({ at, isNotice }) => at > request.overAt && !isNotice && !isFromWaking(at));
    const wasTold = (request: Request) => of(request).some(({ at, entered }) => entered && at < request.filedAt);
    const told = over.filter(wasTold);
    const isLate = (request: Request) => posts(request).filter(({ computedAt }) => computedAt < request.filedAt).length;
    return {
      requests: this.requests.length,
      told: told.length,
      unfinished: this.requests.length - over.length,
      late: sum(over.map(isLate)),
      suppressed: sum(over.filter(({ type }) => type !== 'DELETE_ONLY').map((request) => posts(request).length)),
      untold: told.filter((request) => !of(request).some(({ isNotice, taken }) => isNotice && taken)).length,
    };
  }

  private async fileOne(): Promise<void> {
    const { random, file, arrivals } = this.parts;
    const known = new Set(arrivals.flatMap(({ entered, user }) => (entered ? user : [])));
    const told = this.left.filter((user) => known.has(user));
    // Half of them somebody who was told of, if there is one; among the others may be those who are on their way.
    const some = told.length > 0 && (this.requests.length === 0 || random(2) === 1) ? told : this.left;
    const user = some[random(some.length) - 1];
    const type = random(2) === 1 ? 'DELETE_ONLY' : 'SUPPRESS_WITH_DELETE';
    if (user === undefined) return;
    this.left.splice(this.left.indexOf(user), 1);
    // Who dies over it may have filed it or not: then it is filed again.
    for (;;) {
      const filedAt = Date.now();
      const id = await file([user], type);
      if (id === null) continue;
      const request: Request = { user, type, filedAt, id, status: null, overAt: Number.POSITIVE_INFINITY };
      this.requests.push(request);
      this.watched.push(this.watch(request));
      return;
    }
  }

  private async watch(request: Request): Promise<void> {
    while (!isOver(request.status)) {
      await pause(100, undefined, { ref: false });
      request.status = await this.parts.statusOf(request.id);
    }
    // Bytes in this process's sockets already came before.
    await pause(50);
    request.overAt = Date.now();
  }
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, each) => total + each, 0);
