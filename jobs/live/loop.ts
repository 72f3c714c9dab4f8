import { RollcallError } from '../../src/kernel/errors.ts';
import { failpoint } from '../../src/kernel/failpoint.ts';
import type { LiveSource } from '../../src/store/live.ts';
import type { Deletions } from '../../src/store/port.ts';
import type { Engine } from '../engines/port.ts';
import type { LiveEvent } from './event.ts';
import { isAhead, latest } from './latest-time.ts';
import { hasReached, readNews } from './new-events.ts';
import { type LiveMoved, type LivePlace, type StepInput, takeStep } from './step.ts';
import { Named } from './synced-audiences.ts';
import { CLEARED, Upkeep, type UpkeepParts } from './upkeep.ts';

/*
 * A leader's loop over the event log of one source. Each round does at most one step, and a step is one transaction: read what
 * is new, find the persons affected, compute their values, write state and messages together.
 *
 * A loop runs in four modes:
 *
 * - run: as long as this process leads. A round handles new events, persons who are due by time alone, days that the log
 *   has dropped, and members of SQL audiences that definitions refer to (`takeNamed`). It waits 50 ms after a step, 100 ms
 *   after none, and up to 500 ms once nothing has happened for some seconds.
 * - run with background work: the same, and after each round a part of a sweep or of building a successor state. Once that
 *   work is done, the run ends and the loop of `BackgroundWork.next` continues.
 * - catchUp and takeOver: a successor reads as far as the serving loop, then replaces it in one step.
 * - once: to the end of the log and no further, for commands.
 *
 * State is versioned. If somebody else changed the inputs of a step (`live_moved`, `epoch_moved`), or the store is busy,
 * nothing was written: `orAgain` reloads the state and leaves the work for a later round. `live_moved` thrown by
 * `own` ends the loop, and `prepare.ts` decides what to rebuild.
 */

export interface LoopParts extends UpkeepParts {
  readonly onStep: (step: LiveStepReport) => void;
  /** Runs work with the engine that has an audience's snapshot. */
  readonly ask: <T>(key: string, work: (engine: Engine) => Promise<T>) => Promise<T>;
}

/** The result of a step, for metrics. */
export interface LiveStepReport {
  readonly source: string;
  readonly events: number;
  /** Number of persons evaluated. */
  readonly touched: number;
  readonly sent: number;
  readonly moved: readonly LiveMoved[];
  /** Milliseconds from the receipt of the oldest event, or from the due time, until the changes were accepted. */
  readonly lag: number;
}

/** Milliseconds between two reads of the log. Each read without news lengthens the next wait by a tenth. */
const LOOK_EVERY = 100;
const LONGEST_LOOK = 500;
const SLOWER = 1.1;
/** Milliseconds between two steps: events that arrive in between share the next one's cost. */
const STEP_EVERY = 50;
/** After this many events at once, more are probably waiting. */
const MANY = 1_000;
/** Milliseconds between checks for days that the log has dropped. */
const DAYS_EVERY = 1_000;
/** The most persons evaluated in one step because they are due, and the most ids because days were dropped. */
const PERSONS = 1_000;
/** The most steps of a loop catching up with another before the other one continues. */
const CATCH_UP = 10;
/** Milliseconds until an engine is asked again after a failure. */
const ASK_AGAIN = 5_000;
/** Somebody else changed the inputs of a step. Nothing was written. */
const MOVED = ['live_moved', 'epoch_moved'];
/** Reasons to compute a step again. */
const AGAIN = [...MOVED, 'store_busy'];

/** The outcome of a round: the next due time, whether it took a step, and whether more is waiting. */
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

/** Background work. A part of it is done after each step. */
export interface BackgroundWork {
  /** Does a part. `waits`: there is nothing to do now. `done`: that was all. */
  round(loop: Loop): Promise<'waits' | 'goes on' | 'done'>;
  stop(): Promise<void>;
  /** The loop that continues after it, with further background work if any. */
  next(loop: Loop): Computing;
}

/** A loop for the definitions that can be computed now, and the background work for new or edited ones. */
export interface Computing {
  readonly loop: Loop;
  readonly background: BackgroundWork | null;
}

/** A leader's loop while it has the lease. See the top of this file. */
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
   * Runs until the background work is done, the signal aborts, or something fails.
   *
   * @param background - null if there is none; then it runs until the signal aborts
   */
  async run(background: BackgroundWork | null, isOnce = false): Promise<void> {
    const { clock, signal } = this.parts;
    await this.load();
    let pause = LOOK_EVERY;
    for (;;) {
      signal.throwIfAborted();
      const startedAt = clock.monotonic();
      const { next, stepped, isMore } = await this.round();
      if (!isOnce) this.upkeep.look();
      if (this.upkeep.isIncomplete) throw computedAnew();
      const hasNamed = await this.takeNamed();
      const work = (await background?.round(this)) ?? 'waits';
      if (work === 'done') return;
      pause = stepped || hasNamed || background ? LOOK_EVERY : Math.min(pause * SLOWER, LONGEST_LOOK);
      if (isMore || hasNamed || work === 'goes on') continue;
      const left = (stepped ? STEP_EVERY : pause) - (clock.monotonic() - startedAt);
      const wait = Math.min(left, next - clock.now());
      if (wait > 0) await clock.sleep(wait, signal);
    }
  }

  /** Processes the log to its end. */
  async once(): Promise<void> {
    await this.load();
    this.named.again();
    while ((await this.round()).stepped || (await this.takeNamed())) this.parts.signal.throwIfAborted();
    while (await this.parts.store.live.clearOver(this.place.source, CLEARED)) this.parts.signal.throwIfAborted();
  }

  /** Evaluates these persons. Resolves to false if that must be tried again. */
  async lookAt(persons: readonly string[]): Promise<boolean> {
    if (persons.length === 0) return true;
    return this.orAgain(false, async () => {
      await this.step({ ...NO_NEWS, due: persons }, this.position);
      return true;
    });
  }

  /** True once it knows the members of all SQL audiences that definitions refer to. */
  get isInformed(): boolean {
    return this.named.isKnown;
  }

  /** Imports some members of SQL audiences. Resolves to true if there may be more. */
  takeNamed(): Promise<boolean> {
    return this.orAgain(false, async () => {
      const { store, clock, log, signal } = this.parts;
      if (this.named.isEmpty || clock.monotonic() - this.namedAt < ASK_AGAIN) return false;
      const { settled } = await store.deletions(null);
      const news = await this.named.next().catch((error) => {
        signal.throwIfAborted();
        log.warn({ err: error }, 'Could not read the members of an audience that live audiences refer to; retrying');
        this.named.again();
        this.namedAt = clock.monotonic();
        return null;
      });
      if (news === null) return false;
      // A deletion may have begun before its users were read, and may have taken them from here already.
      const users = news.memberships.map(({ user }) => user);
      const out = new Set(users.length > 0 ? await store.excluded(users, this.place.source, settled) : []);
      const memberships = news.memberships.map((each) => (out.has(each.user) ? { ...each, value: undefined } : each));
      await this.step({ ...NO_NEWS, memberships, named: news.version }, this.position);
      this.named.taken(news);
      return true;
    });
  }

  /** Reads at least as far as another loop, at no earlier time. Resolves to false if there is more to read. */
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
   * Replaces another loop, which has already read and computed all that this one has. Does so in one step, with all events
   * that the other one has read. Resolves to false if there is too much for one step.
   *
   * @param place - the new place, including the definitions of the other loop
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
    // Other errors, after which something may have been written, end the lease: the next leader will check.
    const done = await this.orAgain(false, takeOver, MOVED);
    if (!done) Object.assign(this, before);
    return done;
  }

  /** Loads the state's position, time and revision. */
  async load(): Promise<void> {
    const { at, revision, position } = await this.own();
    Object.assign(this, { at: Math.max(this.at, at), revision, position });
  }

  /** @throws RollcallError `live_moved` when the state is to be rebuilt or was replaced */
  private async own(): Promise<LiveSource> {
    const { source, state, isStale } = this.place;
    const { store } = this.parts;
    const known = [await store.live.currentState(source), await store.live.nextState(source)].find(
      (each) => each?.state === state,
    );
    if (known && !known.isBuilding && (isStale || !known.isStale)) return known;
    throw computedAnew();
  }

  /** Takes a step if there is anything to do. */
  round(): Promise<Round> {
    return this.orAgain(NO_ROUND, () => this.takeRound());
  }

  /** Leaves work for a later round if somebody else changed its inputs: that is no reason to give up, say, a build. */
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

  /** Ids with events received on days that the log has dropped. */
  private async old(): Promise<readonly string[]> {
    const { store, clock } = this.parts;
    if (clock.monotonic() - this.daysAt < DAYS_EVERY) return [];
    // A deletion may have asked for a rebuild. A step would notice, but without events there is none.
    await this.own();
    const first = await this.firstDay(await store.deletions(null));
    const old = await store.live.idsOlderThan(this.place.state, first, PERSONS);
    if (old.length < PERSONS) this.daysAt = clock.monotonic();
    return old;
  }

  /** The first day of which nothing was forgotten by time. A deletion under way may have emptied days, too. */
  private async firstDay({ epoch, settled }: Deletions): Promise<number> {
    return settled < epoch ? 0 : this.parts.store.events.firstDay();
  }

  /** The current time, but never earlier than before, nor than any event. */
  private time(events: readonly LiveEvent[]): number {
    return latest(this.parts.clock.now(), [this.at, ...events.map(({ receivedAt }) => receivedAt)]);
  }

  private noEarlier(at: number): number {
    return isAhead(at, this.parts.clock.now()) ? this.at : Math.max(this.at, at);
  }

  /**
   * Rebuilds everything if the clock was ahead and is right again: members left too early, and their events were dropped.
   * SQL counts by the clock, too.
   */
  private async checkClock(): Promise<void> {
    const { store, clock, log } = this.parts;
    const { source, isStale } = this.place;
    const ms = this.at - clock.now();
    if (isStale || !isAhead(this.at, clock.now())) return;
    await store.live.renewStates(source);
    log.warn({ source, ms }, 'The clock was set back; rebuilding live audiences');
    throw computedAnew();
  }

  private async step(given: typeof NO_NEWS, position: string, dueSince = Number.POSITIVE_INFINITY): Promise<void> {
    const { store, clock, onStep } = this.parts;
    const { revision } = this;
    const { events } = given;
    const now = this.time(events);
    const deletions = await store.deletions(null);
    // Read after the events, which are part of the log: an empty log has no first day.
    const first = await this.firstDay(deletions);
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
  return new RollcallError('live_moved', 'Live membership has to be rebuilt.');
}

function notReady(): RollcallError {
  return new RollcallError('live_not_ready', 'Live membership is not computed yet, or has to be rebuilt.');
}
