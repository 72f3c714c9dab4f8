import type { Clock } from '../kernel/clock.ts';
import type { Logger } from '../kernel/log.ts';
import type { Claim, Settlement } from '../store/port.ts';
import { released } from './verdict.ts';

/** Abnormal ends after which a delivery is posted alone, and then given up: nothing else was in flight at the last. */
export const ALONE_AFTER = 2;
const GIVEN_UP_AFTER = 3;
/**
 * Milliseconds that a process runs before it posts a suspect. Anything that kills processes in quick succession, such
 * as a failing machine, then never meets a delivery that is posted alone.
 */
const STEADY_AFTER = 10_000;
/** Limits of suspects posted in a row while everything else waits, and of the milliseconds for that. */
const SESSION_SIZE = 16;
const SESSION_LIMIT = 5_000;
/** Afterwards everything else runs for this many times as long as it had to wait. */
const REST_FACTOR = 9;
const SHORTEST_REST = 100;
/** Limit of milliseconds to wait for a verdict to be written. */
const WRITE_LIMIT = 5_000;
/** Delays of a suspect that can't be posted now, in milliseconds: the shortest, and the default. */
const SHORTEST_WAIT = 1_000;
const LONG_WAIT = 60_000;

interface LoneQueue {
  readonly hasRoom: boolean;
  nextRoomIn(): number | null;
  postAlone(claim: Claim): Promise<void>;
}

interface SuspectsOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** Calls `Store.begin` for this process's claims. */
  readonly begin: (claims: readonly Claim[]) => Promise<void>;
  /** Resolves when nothing is in flight; nothing new begins while `isDraining`. */
  readonly drained: () => Promise<void>;
  readonly queueOf: (destination: string) => LoneQueue | undefined;
  readonly settle: (settlement: Settlement) => void;
  readonly onResumed: () => void;
}

/**
 * Deliveries that were in flight when processes ended abnormally: one of them may be the cause. They are narrowed down
 * without burying innocents. After one end, a post is recorded before it begins, so that a second end counts only for
 * those in flight. After two, the delivery is posted alone. If the process ends again, the delivery is the cause.
 */
export class Suspects {
  private readonly options: SuspectsOptions;
  private readonly recording: Claim[] = [];
  private recorded: Promise<boolean> | null = null;
  private readonly aside: Claim[] = [];
  private session: Promise<void> | null = null;
  private phase: 'draining' | 'posting' | null = null;
  private readyAt: number;
  private isStopped = false;
  private awaited: { readonly id: string; readonly resolve: () => void } | null = null;

  constructor(options: SuspectsOptions) {
    this.options = options;
    this.readyAt = options.clock.monotonic() + STEADY_AFTER;
  }

  /** True while nothing may begin, so that deliveries in flight end. */
  get isDraining(): boolean {
    return this.phase === 'draining';
  }

  /** True while a suspect is being posted or about to be: nothing else may be claimed. */
  get isAlone(): boolean {
    return this.phase !== null;
  }

  /** Records an imminent post, with others of one pass of the event loop; resolves to true if it may begin. */
  record(claim: Claim): Promise<boolean> {
    this.recording.push(claim);
    this.recorded ??= new Promise<void>((resolve) => setImmediate(resolve)).then(() => this.write());
    return this.recorded;
  }

  /** Takes a delivery that was in flight at two or more abnormal ends. */
  take(claim: Claim): void {
    if (claim.crashes >= GIVEN_UP_AFTER) this.giveUp(claim);
    else if (this.isStopped || this.wait > 0 || this.isAlone || this.aside.length >= SESSION_SIZE) this.putOff(claim);
    else {
      this.aside.push(claim);
      // Suspects of the same claim go together.
      this.session ??= new Promise<void>((resolve) => setImmediate(resolve)).then(() => this.postAll());
    }
  }

  written(settlements: readonly Settlement[]): void {
    if (this.awaited && settlements.some(({ claim }) => claim.id === this.awaited?.id)) this.awaited.resolve();
  }

  /** Forgets claims that are no longer ours. */
  clear(): void {
    this.aside.length = 0;
    this.awaited?.resolve();
  }

  /** Releases deliveries not begun; resolves when nothing is running. */
  async stop(): Promise<void> {
    this.isStopped = true;
    this.awaited?.resolve();
    await this.session;
  }

  /** Milliseconds until suspects may be posted. */
  private get wait(): number {
    return Math.max(0, this.readyAt - this.options.clock.monotonic());
  }

  private async write(): Promise<boolean> {
    const claims = this.recording.splice(0);
    this.recorded = null;
    try {
      await this.options.begin(claims);
      return true;
    } catch (error) {
      this.options.log.warn({ stage: 'deliver', err: error }, 'Could not record posts before sending them; retrying');
      return false;
    }
  }

  private async postAll(): Promise<void> {
    const { clock, log, drained, onResumed } = this.options;
    const startedAt = clock.monotonic();
    try {
      this.phase = 'draining';
      await drained();
      this.phase = 'posting';
      for (let claim = this.aside.shift(); claim; claim = this.aside.shift()) {
        if (this.isStopped || clock.monotonic() - startedAt > SESSION_LIMIT) this.putOff(claim);
        else await this.postAlone(claim);
      }
    } catch (error) {
      log.error({ stage: 'deliver', err: error }, 'Could not post suspect deliveries alone');
    }
    this.phase = null;
    this.session = null;
    const rest = Math.max(SHORTEST_REST, REST_FACTOR * (clock.monotonic() - startedAt));
    this.readyAt = clock.monotonic() + rest;
    onResumed();
  }

  private async postAlone(claim: Claim): Promise<void> {
    const { clock, log, queueOf } = this.options;
    const queue = queueOf(claim.destination);
    if (!queue?.hasRoom) {
      const at = clock.now() + (queue?.nextRoomIn() ?? LONG_WAIT);
      this.putOff(claim, at);
      return;
    }
    const { id: delivery, destination } = claim;
    log.warn(
      { stage: 'deliver', delivery, destination },
      'Delivery was in flight when two processes crashed; posting it alone',
    );
    const { promise: written, resolve } = Promise.withResolvers<void>();
    this.awaited = { id: claim.id, resolve };
    await queue.postAlone(claim);
    // Once the verdict is on disk, an abnormal end no longer counts.
    const cancel = clock.after(WRITE_LIMIT, resolve);
    await written;
    cancel();
    this.awaited = null;
  }

  private putOff(claim: Claim, at = 0): void {
    const { clock, settle } = this.options;
    const dueAt = this.isStopped ? null : Math.max(at, clock.now() + Math.max(SHORTEST_WAIT, Math.ceil(this.wait)));
    settle(released(claim, dueAt));
  }

  private giveUp(claim: Claim): void {
    const { log, settle } = this.options;
    const { id: delivery, destination, firstAt, crashes } = claim;
    log.error(
      { stage: 'deliver', delivery, destination, crashes },
      'The process crashed each time it posted this delivery, the last time with nothing else in flight: it becomes a dead letter',
    );
    settle({ claim, verdict: { kind: 'dead', reason: 'undeliverable', status: null, firstAt }, attempts: [] });
  }
}
