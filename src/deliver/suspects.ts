import type { Clock } from '../kernel/clock.ts';
import type { Logger } from '../kernel/log.ts';
import type { Claim, Settlement } from '../store/port.ts';
import { released } from './verdict.ts';

/** Abnormal ends after which a delivery is posted alone, and after which it is given up: the last had nothing else in flight. */
export const ALONE_AFTER = 2;
const GIVEN_UP_AFTER = 3;
/**
 * How long a process lives before it posts a suspect, in milliseconds. Whatever ends processes in quick succession, such
 * as a machine that fails, then never comes upon a delivery that is posted alone.
 */
const STEADY_AFTER = 10_000;
/** Suspects posted one after the other while all else waits, and for how long at most, in milliseconds. */
const SESSION_SIZE = 16;
const SESSION_LIMIT = 5_000;
/** Afterwards everything else goes on for this many times as long as it had to wait. */
const REST_FACTOR = 9;
const SHORTEST_REST = 100;
/** How long a verdict is waited for that is not written, in milliseconds. */
const WRITE_LIMIT = 5_000;
/** When a suspect comes again that can't be posted now, at the earliest and where nothing says more, in milliseconds. */
const SHORTEST_WAIT = 1_000;
const LONG_WAIT = 60_000;

/** The queue of a destination, as far as a post of its own needs it. */
interface LoneQueue {
  readonly hasRoom: boolean;
  nextRoomIn(): number | null;
  postAlone(claim: Claim): Promise<void>;
}

interface SuspectsOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** Makes `Store.begin` durable for this process's claims. */
  readonly begin: (claims: readonly Claim[]) => Promise<void>;
  /** Resolves once nothing is in flight; nothing more begins while `isDraining`. */
  readonly drained: () => Promise<void>;
  /** The queue that serves a destination now. */
  readonly queueOf: (destination: string) => LoneQueue | undefined;
  readonly settle: (settlement: Settlement) => void;
  /** Called when all else may go on. */
  readonly onResumed: () => void;
}

/**
 * Deliveries that were in flight when processes ended abnormally: one of them may be the cause. It is found without
 * burying innocents. After one end, a post is recorded before it begins, so that a second end counts only for those in
 * flight. After two, the delivery is posted alone. If the process ends then too, it was the delivery.
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

  /** Whether nothing may begin, so that what is in flight ends. */
  get isDraining(): boolean {
    return this.phase === 'draining';
  }

  /** Whether a suspect is being posted, or about to be: nothing else may be claimed. */
  get isAlone(): boolean {
    return this.phase !== null;
  }

  /** Records that a delivery is about to be posted; resolves to whether it may be. Those of one pass of the event loop go together. */
  record(claim: Claim): Promise<boolean> {
    this.recording.push(claim);
    this.recorded ??= new Promise<void>((resolve) => setImmediate(resolve)).then(() => this.write());
    return this.recorded;
  }

  /** Takes a delivery that was in flight at two abnormal ends or more. */
  take(claim: Claim): void {
    if (claim.crashes >= GIVEN_UP_AFTER) this.giveUp(claim);
    else if (this.isStopped || this.wait > 0 || this.isAlone || this.aside.length >= SESSION_SIZE) this.putOff(claim);
    else {
      this.aside.push(claim);
      // Those of the same claim go together.
      this.session ??= new Promise<void>((resolve) => setImmediate(resolve)).then(() => this.postAll());
    }
  }

  written(settlements: readonly Settlement[]): void {
    if (this.awaited && settlements.some(({ claim }) => claim.id === this.awaited?.id)) this.awaited.resolve();
  }

  /** Forgets what is no longer ours. */
  clear(): void {
    this.aside.length = 0;
    this.awaited?.resolve();
  }

  /** Gives back what has not begun; resolves once nothing is under way. */
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
      this.options.log.warn({ stage: 'deliver', err: error }, 'The store did not record the posts; trying again');
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
      log.error({ stage: 'deliver', err: error }, 'Could not look after deliveries that are posted alone');
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
      'This delivery was in flight when two processes crashed: it is posted alone',
    );
    const { promise: written, resolve } = Promise.withResolvers<void>();
    this.awaited = { id: claim.id, resolve };
    await queue.postAlone(claim);
    // Once that is on disk, an end counts for nothing any more.
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
