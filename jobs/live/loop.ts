import { RollcallError } from '../../src/kernel/errors.ts';
import { failpoint } from '../../src/kernel/failpoint.ts';
import type { LiveSource } from '../../src/store/live.ts';
import type { Engine } from '../engines/port.ts';
import type { LiveEvent } from './event.ts';
import { isAhead, latest } from './latest-time.ts';
import { hasReached, readNews } from './new-events.ts';
import { type LiveMoved, type LivePlace, type StepInput, takeStep } from './step.ts';
import { Named } from './synced-audiences.ts';
import { CLEARED, Upkeep, type UpkeepParts } from './upkeep.ts';

/*
 * A leader's loop over the event log of one source. Each round does at most one step, and a step is one transaction: read what
 * is new, find the persons whom it touches, compute their values, write state and messages together.
 *
 * A loop goes its rounds in four modes:
 *
 * - run: for as long as this process leads. A round handles new events, persons who are due by time alone, days that the log
 *   has dropped, and members of SQL audiences that definitions refer to (`takeNamed`). It waits 50 ms after a step, 100 ms
 *   after none.
 * - run with work beside it: the same, and after each round a part of a sweep or of a successor state that is being built.
 *   That work ends the run once it is done, and says which loop goes on (`Beside.next`).
 * - catchUp and takeOver: a successor reads as far as the loop that serves, then takes its place in one step.
 * - once: to the end of the log and no further, for commands.
 *
 * State is versioned. If somebody else changed what a step was computed from (`live_moved`, `epoch_moved`) or the store is
 * busy, nothing was written: `orAgain` loads the state again and leaves the work for a later round. `live_moved` thrown by
 * `own` ends the loop, and `prepare.ts` decides what is built again.
 */

export interface LoopParts extends UpkeepParts {
  readonly onStep: (step: LiveStepReport) => void;
  /** Asks the engine that has the snapshot of an audience. */
  readonly ask: <T>(key: string, work: (engine: Engine) => Promise<T>) => Promise<T>;
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
/** How often it is looked whether the log has forgotten days, in milliseconds. */
const DAYS_EVERY = 1_000;
/** Persons looked at in one step because of the time, or because days are forgotten. */
const PERSONS = 1_000;
/** Steps that one loop takes at most until it has caught up with another; then that one goes on. */
const CATCH_UP = 10;
/** After an engine could not be asked, it is asked again so much later, in milliseconds. */
const ASK_AGAIN = 5_000;
/** Somebody else changed what a step was computed from, and nothing of it is written. */
const MOVED = ['live_moved', 'epoch_moved'];
/** Reasons to compute a step again. */
const AGAIN = [...MOVED, 'store_busy'];

/** The outcome of a round: when something is due, whether there was a step, and whether more waits already. */
interface Round {
  readonly next: number;
  readonly stepped: boolean;
  readonly isMore: boolean;
}

const NO_ROUND: Round = { next: Number.POSITIVE_INFINITY, stepped: false, isMore: false };

const NO_NEWS: Pick<StepInput, 'events' | 'due' | 'old' | 'memberships' | 'serves' | 'named'> = {
  ...{ events: [], due: [], old: [], memberships: [] },
  ...{ serves: false, named: null },
};

/** Work beside the steps, a round of it after each. */
export interface Beside {
  /** Does some of it. `waits`: there is nothing to do now; `done`: that was all. */
  round(loop: Loop): Promise<'waits' | 'goes on' | 'done'>;
  stop(): Promise<void>;
  /** The loop that goes on once it is done, and what is left to do beside that one. */
  next(loop: Loop): Computing;
}

/** A loop that computes what can be computed now, and what has to be done beside it for definitions that are new or edited. */
export interface Computing {
  readonly loop: Loop;
  readonly beside: Beside | null;
}

/** A leader's work while it has the lease: reads, computes, writes, one step after the other. */
export class Loop {
  private readonly parts: LoopParts;
  private place: LivePlace;
  private at = 0;
  private revision = 0;
  private position = '';
  private upkeep: Upkeep;
  private daysAt = Number.NEGATIVE_INFINITY;
  private readonly named: Named;
  private namedAt = Number.NEGATIVE_INFINITY;

  constructor(parts: LoopParts, place: LivePlace) {
    this.parts = parts;
    this.place = place;
    this.upkeep = new Upkeep(parts, place);
    this.named = new Named(parts, place.state, place.asked.audiences);
  }

  /**
   * Goes on until the work beside it is done, the signal aborts, or something fails.
   *
   * @param beside - null for none: it goes on for ever
   */
  async run(beside: Beside | null, isOnce = false): Promise<void> {
    const { clock, signal } = this.parts;
    await this.load();
    for (;;) {
      signal.throwIfAborted();
      const startedAt = clock.monotonic();
      const { next, stepped, isMore } = await this.round();
      if (!isOnce) this.upkeep.look();
      const hasNamed = await this.takeNamed();
      const work = (await beside?.round(this)) ?? 'waits';
      if (work === 'done') return;
      if (isMore || hasNamed || work === 'goes on') continue;
      const left = (stepped ? STEP_EVERY : LOOK_EVERY) - (clock.monotonic() - startedAt);
      const wait = Math.min(left, next - clock.now());
      if (wait > 0) await clock.sleep(wait, signal);
    }
  }

  /** Reads on to the end of the log. */
  async once(): Promise<void> {
    await this.load();
    this.named.again();
    while ((await this.round()).stepped || (await this.takeNamed())) this.parts.signal.throwIfAborted();
    while (await this.parts.store.live.clearOver(this.place.source, CLEARED)) this.parts.signal.throwIfAborted();
  }

  /** Looks at these persons, whatever they did; resolves to whether it could. */
  async lookAt(persons: readonly string[]): Promise<boolean> {
    if (persons.length === 0) return true;
    return this.orAgain(false, async () => {
      await this.step({ ...NO_NEWS, due: persons }, this.position);
      return true;
    });
  }

  /** Whether it knows the members of all audiences by SQL that definitions name. */
  get isInformed(): boolean {
    return this.named.isKnown;
  }

  /** Takes over some members of audiences by SQL; resolves to whether there may be more. */
  takeNamed(): Promise<boolean> {
    return this.orAgain(false, async () => {
      const { clock, log, signal } = this.parts;
      if (clock.monotonic() - this.namedAt < ASK_AGAIN) return false;
      const news = await this.named.next().catch((error) => {
        signal.throwIfAborted();
        log.warn({ err: error }, 'An audience that live ones name could not be asked for its members; trying again');
        this.named.again();
        this.namedAt = clock.monotonic();
        return null;
      });
      if (news === null) return false;
      await this.step({ ...NO_NEWS, memberships: news.memberships, named: news.version }, this.position);
      this.named.taken(news);
      return true;
    });
  }

  /** Reads at least as far as another one, at no earlier time; resolves to whether it could, as more may come meanwhile. */
  catchUp(other: Loop): Promise<boolean> {
    return this.orAgain(false, async () => {
      this.at = this.noEarlier(other.at);
      this.daysAt = Number.NEGATIVE_INFINITY;
      for (let left = CATCH_UP; left > 0; left -= 1) {
        const { isMore } = await this.takeRound();
        if (!isMore && hasReached(this.parts.store.events, this.position, other.position)) return true;
      }
      return false;
    });
  }

  /**
   * Computes all definitions from now on, in the place of another loop that has read and computed all that this one has: in one
   * step, with all events that the other one has read before. Resolves to whether it could: there may be too much for a step.
   *
   * @param place - with those that the other one computes
   */
  async takeOver(other: Loop, place: LivePlace): Promise<boolean> {
    const { store, clock } = this.parts;
    const before = { place: this.place, upkeep: this.upkeep };
    const takeOver = async () => {
      this.at = this.noEarlier(other.at);
      const news = await readNews(store.events, this.position, clock.now());
      if (news === null) throw notReady();
      if (!hasReached(store.events, news.position, other.position)) return false;
      const [{ persons }, old] = await Promise.all([
        store.live.personsDue(place.state, this.time(news.events), PERSONS),
        store.live.idsOlderThan(place.state, await store.events.firstDay(), PERSONS),
      ]);
      if (persons.length === PERSONS || old.length === PERSONS) return false;
      if (!this.named.isKnown || !this.named.isLike(other.named)) return false;
      Object.assign(this, { place, upkeep: new Upkeep(this.parts, place) });
      await this.step({ ...NO_NEWS, events: news.events, due: persons, old, serves: true }, news.position);
      return true;
    };
    // Where it is not certain that nothing was written, the lease is given back, and whoever leads next looks.
    const done = await this.orAgain(false, takeOver, MOVED);
    if (!done) Object.assign(this, before);
    return done;
  }

  /** Begins where the state is. */
  async load(): Promise<void> {
    const { at, revision, position } = await this.own();
    Object.assign(this, { at: Math.max(this.at, at), revision, position });
  }

  /** @throws RollcallError `live_moved` when it is to be computed anew, or another one has taken its place */
  private async own(): Promise<LiveSource> {
    const { source, state, isStale } = this.place;
    const { store } = this.parts;
    const known = [await store.live.currentState(source), await store.live.nextState(source)].find(
      (each) => each?.state === state,
    );
    if (known && !known.isBuilding && (isStale || !known.isStale)) return known;
    throw computedAnew();
  }

  /** A step, if there is anything to do. */
  round(): Promise<Round> {
    return this.orAgain(NO_ROUND, () => this.takeRound());
  }

  /** What others changed meanwhile is no reason to give up, least of all a build: the work is left for another round. */
  private async orAgain<T>(otherwise: T, work: () => Promise<T>, reasons = AGAIN): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof RollcallError && reasons.includes(error.code))) throw error;
      await this.load();
      this.named.again();
      return otherwise;
    }
  }

  private async takeRound(): Promise<Round> {
    const { store, clock } = this.parts;
    const { state } = this.place;
    await this.checkClock();
    const news = await readNews(store.events, this.position, clock.now());
    if (news === null) throw notReady();
    const now = this.time(news.events);
    const [{ persons, since, next }, old] = await Promise.all([store.live.personsDue(state, now, PERSONS), this.old()]);
    const due = next ?? Number.POSITIVE_INFINITY;
    const { flush } = this.upkeep;
    if (news.events.length + persons.length + old.length + flush.size === 0) {
      this.position = news.position;
      return { next: due, stepped: false, isMore: false };
    }
    await this.step({ ...NO_NEWS, events: news.events, due: persons, old }, news.position, since || now);
    const isMore = news.events.length >= MANY || persons.length === PERSONS || old.length === PERSONS || flush.size > 0;
    return { next: due, stepped: true, isMore };
  }

  /** Ids of which something was received on days that the log has forgotten. */
  private async old(): Promise<readonly string[]> {
    const { store, clock } = this.parts;
    if (clock.monotonic() - this.daysAt < DAYS_EVERY) return [];
    // A deletion may have everything computed anew. A step would find that; where nothing happens there is none.
    await this.own();
    const old = await store.live.idsOlderThan(this.place.state, await store.events.firstDay(), PERSONS);
    if (old.length < PERSONS) this.daysAt = clock.monotonic();
    return old;
  }

  /** Never earlier than before, nor than what has happened: no event is in the future. */
  private time(events: readonly LiveEvent[]): number {
    return latest(this.parts.clock.now(), [this.at, ...events.map(({ receivedAt }) => receivedAt)]);
  }

  private noEarlier(at: number): number {
    return isAhead(at, this.parts.clock.now()) ? this.at : Math.max(this.at, at);
  }

  /**
   * A clock that was ahead and is right again has let members leave too early, and forgotten what they did: all is computed anew,
   * as the SQL counts by the clock, too.
   */
  private async checkClock(): Promise<void> {
    const { store, clock, log } = this.parts;
    const { source, isStale } = this.place;
    const ms = this.at - clock.now();
    if (isStale || !isAhead(this.at, clock.now())) return;
    await store.live.renewStates(source);
    log.warn({ source, ms }, 'The clock was set back: live audiences are computed anew');
    throw computedAnew();
  }

  private async step(given: typeof NO_NEWS, position: string, dueSince = Number.POSITIVE_INFINITY): Promise<void> {
    const { store, clock, onStep } = this.parts;
    const { revision } = this;
    const { events } = given;
    const now = this.time(events);
    // Read after the events: they are part of the log, and one without any has no day at all.
    const [deletions, first] = await Promise.all([store.deletions(null), store.events.firstDay()]);
    const input = { ...given, now, first, position, revision, deletions, flush: [...this.upkeep.flush] };
    failpoint('live_step');
    const { touched, sent, flushed, moved } = await takeStep(this.place, input);
    failpoint('live_stepped');
    Object.assign(this, { at: now, position });
    for (const key of flushed) this.upkeep.flush.delete(key);
    const oldest = events.reduce((least, { receivedAt }) => Math.min(least, receivedAt), Math.min(now, dueSince));
    onStep({ source: this.place.source, events: events.length, touched, sent, moved, lag: clock.now() - oldest });
  }
}

function computedAnew(): RollcallError {
  return new RollcallError('live_moved', 'Live membership is to be computed anew.');
}

function notReady(): RollcallError {
  return new RollcallError('live_not_ready', 'Live membership is not computed yet, or has to be computed anew.');
}
