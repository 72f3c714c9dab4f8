import { type Clock, systemClock } from '../../src/kernel/clock.ts';
import type {
  Attempt,
  AudienceRecord,
  Claim,
  ClaimRequest,
  Fence,
  NewMessage,
  Run,
  Settlement,
  Store,
  Verdict,
} from '../../src/store/port.ts';

export const START = Date.parse('2026-01-02T03:04:05.678Z');

/** A database in which time moves only when told, and the stores (each as of a process) opened on it. */
export interface Fixture {
  readonly clock: {
    now(): number;
    /** Sets the wall clock of all processes, while no time passes. */
    step(ms: number): void;
  };
  /** Opens one more store on the same database; closed with the fixture. */
  open(options?: OpenOptions): Promise<Store>;
  /** Time passes, for the process and for the database. */
  advance(ms: number): Promise<void>;
  close(): Promise<void>;
}

export interface OpenOptions {
  readonly maxQueued?: number;
  /** How far this process's clock is ahead. Only where the database has a clock of its own. */
  readonly skew?: number;
}

export type OpenFixture = () => Promise<Fixture>;

/** A clock that stands still until it is moved. */
export class StandingClock {
  private time = START;
  private steady = START;

  now(): number {
    return this.time;
  }

  move(ms: number): void {
    this.time += ms;
    this.steady += ms;
  }

  step(ms: number): void {
    this.time += ms;
  }

  /** As the store takes it, ahead by `skew`. */
  ahead(skew = 0): Clock {
    return { ...systemClock, now: () => this.time + skew, monotonic: () => this.steady, uptime: () => this.steady };
  }
}

const randomText = (first: number, count: number, length: number) =>
  Array.from({ length }, () => String.fromCodePoint(first + Math.floor(Math.random() * count))).join('');

/** An id that no database compresses, and the longest one. */
export const randomId = (bytes: number) => randomText(0x21, 90, bytes);
export const LONGEST_ID = randomId(1_000);
/** The longest key, or name of a destination: four bytes a letter. */
export const LONGEST_NAME = randomText(0x20000, 40_000, 100);

let messages = 0;

export function message(over: Partial<NewMessage> = {}): NewMessage {
  messages += 1;
  return {
    source: 'shop',
    messageId: `m${messages}`,
    type: 'track',
    userId: 'u1',
    body: `{"version":1,"type":"track","n":${messages}}`,
    destinations: ['crm'],
    lane: 'live',
    conflict: null,
    ...over,
  };
}

/** A membership change: its user and audience are its conflict key. */
export const change = (key: string, over: Partial<NewMessage> = {}): NewMessage =>
  message({ type: 'identify', conflict: key, ...over });

export const accept = (store: Store, ...batch: NewMessage[]) => store.accept({ messages: batch, step: null });

export async function claim(store: Store, owner: number, over: Partial<ClaimRequest> = {}): Promise<readonly Claim[]> {
  const request = { destination: 'crm', limit: 100, order: 'usual', ...over } as const;
  const { claims } = await store.claim(owner, [request]);
  return claims[0] ?? [];
}

/** The only delivery that can be claimed. */
export async function claimOne(store: Store, owner: number): Promise<Claim> {
  const claims = await claim(store, owner);
  const [only] = claims;
  if (!only || claims.length > 1) throw new Error(`${claims.length} deliveries were claimed, not one`);
  return only;
}

export const settlement = (of: Claim, verdict: Verdict, attempts: readonly Attempt[] = []): Settlement => ({
  claim: of,
  verdict,
  attempts,
});

export const settle = (store: Store, owner: number, claims: readonly Claim[], verdict: Verdict) =>
  store.settle(
    owner,
    claims.map((each) => settlement(each, verdict)),
  );

export const DELIVERED: Verdict = { kind: 'delivered' };
export const RELEASE: Verdict = { kind: 'release', dueAt: null };
export const REFUSED: Verdict = { kind: 'dead', reason: 'refused', status: 400, firstAt: START };
export const retryAt = (dueAt: number): Extract<Verdict, { kind: 'retry' }> => ({
  kind: 'retry',
  dueAt,
  firstAt: START,
  marks: {},
});

export function attempt(over: Partial<Attempt> = {}): Attempt {
  return { endpoint: 'e1', at: START, ms: 12, outcome: 'success', status: 200, error: null, response: null, ...over };
}

export const bodies = (claims: readonly Claim[]) => claims.map(({ body }) => body);
export const ids = (claims: readonly { readonly id: string }[]) => claims.map(({ id }) => id).sort();

/** Messages held out of a destination's queue, in the order of the listing. */
export const heldOut = (store: Store, destination = 'crm') =>
  store.deadLetters({ destination, reason: 'queue_full', limit: 1_000 });

export const backlogOf = async (store: Store, destination = 'crm') => {
  const row = (await store.backlog()).find((each) => each.destination === destination);
  return row ? { pending: row.pending, dead: row.dead } : { pending: 0, dead: 0 };
};

export function run(over: Partial<Run> = {}): Run {
  return {
    id: 'run-1',
    key: 'big_spenders',
    kind: 'audience',
    action: 'sync',
    state: 'sending',
    first: false,
    members: 3,
    entered: 2,
    exited: 1,
    changed: 0,
    invalid: 0,
    duplicates: 0,
    held: false,
    reason: null,
    code: null,
    sent: 0,
    cursor: null,
    fromVersion: 1,
    toVersion: 2,
    definitionHash: 'h',
    destinations: null,
    asOf: START,
    epoch: 0,
    startedAt: START,
    finishedAt: null,
    ...over,
  };
}

export function audience(over: Partial<AudienceRecord> = {}): AudienceRecord {
  return {
    key: 'big_spenders',
    kind: 'audience',
    engine: 'lake',
    source: 'shop',
    version: 2,
    sequence: 7,
    definitionHash: 'h',
    destinations: ['crm'],
    lapsed: [],
    formerColumns: [],
    endedAt: null,
    columns: [],
    lastRunAt: START,
    ...over,
  };
}

export async function leaseOf(store: Store, lease = 'sync:big_spenders', ttl = 30_000): Promise<Fence> {
  const fence = await store.takeLease(lease, ttl);
  if (!fence) throw new Error(`the lease ${lease} is held`);
  return fence;
}

/** The code of the error that a promise fails with; null when it doesn't. */
export const codeOf = (work: Promise<unknown>): Promise<string | null> =>
  work.then(
    () => null,
    (error: { code?: string }) => error.code ?? String(error),
  );
