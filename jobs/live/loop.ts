import type { Clock } from '../../src/clock.ts';
import { RollcallError } from '../../src/errors.ts';
import { failpoint } from '../../src/failpoint.ts';
import type { LiveAudience } from '../../src/store/live.ts';
import type { Store } from '../../src/store/port.ts';
import type { Log } from '../context.ts';
import type { LiveEvent } from './event.ts';
import { readNews } from './news.ts';
import type { News } from './people.ts';
import { type LiveMoved, type LivePlace, takeStep } from './step.ts';

export interface LoopParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Tells, by a run, what an audience on hold has missed, or has that wait for a person. */
  readonly settle: (key: string) => Promise<void>;
  readonly onStep: (step: LiveStepReport) => void;
}

/** The result of a step, for metrics. */
export interface LiveStepReport {
  readonly source: string;
  readonly events: number;
  /** Persons that were looked at. */
  readonly touched: number;
  readonly sent: number;
  readonly moved: readonly LiveMoved[];
  /** Milliseconds from the receipt of the oldest event, or the moment that was due, until the changes were accepted. */
  readonly lag: number;
}

/** How often the log is looked at, in milliseconds. */
const LOOK_EVERY = 100;
/** So long after a step the next one begins, in milliseconds: events that come meanwhile share its cost. */
const STEP_EVERY = 50;
/** With so many events at once, more are taken to wait. */
const MANY = 1_000;
/** How often audiences on hold are looked at, in milliseconds. */
const SETTLE_EVERY = 500;
/** How often what is old is forgotten, in milliseconds. */
const PRUNE_EVERY = 3_600_000;
/** How often it is looked whether the log has forgotten days, in milliseconds. */
const DAYS_EVERY = 1_000;
/** Persons looked at in one step because of the time, or all of them one after the other. */
const PERSONS = 1_000;
/** Sent to nobody until a person decides. */
export const REJECTED = 'rejected';

/** A leader's work while it has the lease: reads, computes, writes, one step after the other. */
export class Loop {
  private readonly parts: LoopParts;
  private readonly place: LivePlace;
  private at = 0;
  private revision = 0;
  private position = '';
  /** Audiences that may be behind although nothing holds them. */
  private readonly flush = new Set<string>();
  private onHold: ReadonlySet<string>;
  private lookedAt = Number.NEGATIVE_INFINITY;
  private prunedAt = Number.NEGATIVE_INFINITY;
  private daysAt = Number.NEGATIVE_INFINITY;
  private isLooking = false;

  constructor(parts: LoopParts, place: LivePlace) {
    this.parts = parts;
    this.place = place;
    this.onHold = new Set(place.computations.keys());
  }

  /** Goes on until the signal aborts, or something fails. */
  async run(): Promise<never> {
    const { clock, signal } = this.parts;
    await this.load();
    for (;;) {
      signal.throwIfAborted();
      const startedAt = clock.monotonic();
      const { next, stepped, isMore } = await this.turn();
      this.lookAround();
      if (isMore) continue;
      const left = (stepped ? STEP_EVERY : LOOK_EVERY) - (clock.monotonic() - startedAt);
      const wait = Math.min(left, next - clock.now());
      if (wait > 0) await clock.sleep(wait, signal);
    }
  }

  /** Reads on to the end of the log. */
  async once(): Promise<void> {
    await this.load();
    while ((await this.turn()).stepped) this.parts.signal.throwIfAborted();
  }

  /** Looks at all persons of whom anything is kept. */
  everybody(): Promise<void> {
    const { store, source } = this.place;
    return this.lookAt((after) => store.livePersons(source, after, PERSONS));
  }

  /** Looks at members of whom nothing is kept. */
  async strays(): Promise<void> {
    const { store, source, computations } = this.place;
    for (const key of computations.keys()) {
      await this.lookAt((after) => store.liveStrays(source, key, after, PERSONS));
    }
  }

  /** @param next - the first persons after another */
  private async lookAt(next: (after: string) => Promise<readonly string[]>): Promise<void> {
    await this.load();
    for (let after: string | undefined = ''; after !== undefined; ) {
      this.parts.signal.throwIfAborted();
      const persons: readonly string[] = await next(after);
      if (persons.length > 0) await this.step({ events: [], due: persons, old: [] }, this.position);
      after = persons.at(-1);
    }
  }

  private async load(): Promise<void> {
    const known = await this.parts.store.liveSource(this.place.source);
    if (known === null || known.isBuilding) throw notReady();
    ({ at: this.at, revision: this.revision, position: this.position } = known);
  }

  /** One step, if there is anything to do; resolves to when something is due, and whether more waits already. */
  private async turn(): Promise<{ readonly next: number; readonly stepped: boolean; readonly isMore: boolean }> {
    const { store, clock } = this.parts;
    const { source } = this.place;
    const news = await readNews(store.events, this.position, clock.now());
    if (news === null) throw notReady();
    const now = this.time(news.events);
    const [{ persons, since, next }, old] = await Promise.all([store.liveDue(source, now, PERSONS), this.old()]);
    const due = next ?? Number.POSITIVE_INFINITY;
    if (news.events.length + persons.length + old.length + this.flush.size === 0) {
      this.position = news.position;
      return { next: due, stepped: false, isMore: false };
    }
    await this.step({ events: news.events, due: persons, old }, news.position, since || now);
    const isMore =
      news.events.length >= MANY || persons.length === PERSONS || old.length === PERSONS || this.flush.size > 0;
    return { next: due, stepped: true, isMore };
  }

  /** Ids of which something was received on days that the log has forgotten. */
  private async old(): Promise<readonly string[]> {
    const { store, clock } = this.parts;
    if (clock.monotonic() - this.daysAt < DAYS_EVERY) return [];
    await this.checkBuilt();
    const old = await store.liveOld(this.place.source, await store.events.firstDay(), PERSONS);
    if (old.length < PERSONS) this.daysAt = clock.monotonic();
    return old;
  }

  /** A deletion may have everything computed anew. A step would find that; where nothing happens there is none. */
  private async checkBuilt(): Promise<void> {
    const known = await this.parts.store.liveSource(this.place.source);
    if (known?.isBuilding !== false) throw new RollcallError('live_moved', 'Live membership is to be computed anew.');
  }

  /** Never earlier than before, nor than what has happened: no event is in the future. */
  private time(events: readonly LiveEvent[]): number {
    const latest = events.reduce((most, { receivedAt }) => Math.max(most, receivedAt), this.at);
    return Math.max(latest, this.parts.clock.now());
  }

  private async step(
    given: Pick<News, 'events' | 'due' | 'old'>,
    position: string,
    dueSince = Number.POSITIVE_INFINITY,
  ): Promise<void> {
    const { store, clock, onStep } = this.parts;
    const { revision } = this;
    const { events } = given;
    const now = this.time(events);
    // Read after the events: they are part of the log.
    const [deletions, first] = await Promise.all([store.deletions(null), store.events.firstDay()]);
    const input = { ...given, now, first, position, revision, deletions, flush: [...this.flush] };
    failpoint('live_step');
    const { touched, sent, flushed, moved } = await takeStep(this.place, input);
    failpoint('live_stepped');
    Object.assign(this, { at: now, position });
    for (const key of flushed) this.flush.delete(key);
    const oldest = events.reduce((least, { receivedAt }) => Math.min(least, receivedAt), Math.min(now, dueSince));
    onStep({ source: this.place.source, events: events.length, touched, sent, moved, lag: clock.now() - oldest });
  }

  /** Beside the steps: a run may wait for room in a queue for long. Whoever stops waits for runs, not for this. */
  private lookAround(): void {
    const { clock, log } = this.parts;
    if (this.isLooking || clock.monotonic() - this.lookedAt < SETTLE_EVERY) return;
    this.lookedAt = clock.monotonic();
    this.isLooking = true;
    void Promise.all([this.settleHolds(), this.prune()])
      .catch((error) => {
        if (!this.parts.signal.aborted) log.warn({ err: error }, 'Housekeeping of live audiences failed; trying again');
      })
      .finally(() => {
        this.isLooking = false;
      });
  }

  /** Changes are remembered for as long as runs are. */
  private async prune(): Promise<void> {
    const { store, clock } = this.parts;
    const { recordRetention } = this.place.config();
    if (!recordRetention || clock.monotonic() - this.prunedAt < PRUNE_EVERY) return;
    this.prunedAt = clock.monotonic();
    await store.pruneLive(clock.now() - recordRetention.runs);
  }

  private async settleHolds(): Promise<void> {
    const { store, signal, settle } = this.parts;
    for (const { key } of (await this.own()).filter(({ hold }) => hold !== null && hold !== REJECTED)) {
      if (signal.aborted) return;
      const isPaused = this.place.computations.get(key)?.computation.paused;
      const waiting = await store.runs({ key, states: ['held'], limit: 1 });
      if (!isPaused && waiting.length === 0) await settle(key);
    }
    const held = new Set((await this.own()).flatMap(({ key, hold }) => (hold === null ? [] : key)));
    for (const key of this.onHold) if (!held.has(key)) this.flush.add(key);
    this.onHold = held;
  }

  private async own(): Promise<readonly LiveAudience[]> {
    const { computations } = this.place;
    return (await this.parts.store.liveAudiences()).filter(({ key }) => computations.has(key));
  }
}

function notReady(): RollcallError {
  return new RollcallError('live_not_ready', 'Live membership is not computed yet, or has to be computed anew.');
}
