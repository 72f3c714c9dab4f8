import type { AcceptOptions } from '../accept.ts';
import type { Clock } from '../clock.ts';
import type { Destination, Source } from '../destination.ts';
import { longestSince, type Moment, momentOf } from '../lease-time.ts';
import { deletionNotice, type Message } from '../message.ts';
import type { Fence, Regulation, RegulationStatus, RegulationType, Store } from '../store/port.ts';
import type { RegulationRequest } from './routes.ts';

export interface RegulationParts {
  readonly store: Pick<
    Store,
    | 'saveRegulation'
    | 'regulation'
    | 'openRegulations'
    | 'erase'
    | 'suppress'
    | 'takeLease'
    | 'renewLease'
    | 'releaseLease'
  >;
  readonly accept: (source: string, messages: readonly Message[], options: AcceptOptions) => Promise<unknown>;
  readonly sources: () => readonly Source[];
  readonly destinations: () => readonly Destination[];
  /** Takes users out of the snapshots and plans of the audiences that speak as these sources; of all when null. */
  readonly forgetInEngines: (users: readonly string[], sources: readonly string[] | null) => Promise<void>;
  readonly clock: Clock;
  readonly log: { error(details: object, message: string): void };
}

/** Notices per transaction. */
const NOTICES = 500;
/** How long to wait for what is being posted about a user, in milliseconds; an attempt takes 5 s at most. */
const IN_FLIGHT_WAIT = 30_000;
const IN_FLIGHT_STEP = 250;
/** Tries of one step, with 1, 2, 4, … s between them: 17 minutes in all. */
const TRIES = 11;

const SUPPRESSES: Partial<Record<RegulationType, boolean>> = {
  SUPPRESS_ONLY: true,
  SUPPRESS_WITH_DELETE: true,
  UNSUPPRESS: false,
};
const DELETES: readonly RegulationType[] = ['DELETE_ONLY', 'SUPPRESS_WITH_DELETE'];

/** The right to carry requests out, over all processes, in milliseconds; renewed before a step once it is this old. */
const LEASE = 'regulations';
const LEASE_TTL = 60_000;
const RENEW_AFTER = 10_000;
/** How often a process that has something to do asks for it. */
const LEASE_STEP = 1_000;

/** Why a piece of work ends early: the process does, or another has taken over. */
class Stopped extends Error {}

/**
 * Carries deletion requests out, the oldest first, in one process at a time: a user who is suppressed and let in again
 * must not be suppressed by a process that is late. Every step can be repeated, so a crash anywhere does no harm.
 */
export class Regulations {
  readonly #parts: RegulationParts;
  readonly #stopping = new AbortController();
  #work = Promise.resolve();
  /** Whether a look at the open requests is still to come. */
  #willLook = false;
  #turn: { readonly fence: Fence; renewedAt: Moment } | null = null;

  constructor(parts: RegulationParts) {
    this.#parts = parts;
  }

  /** Resolves to the request's id once it is durable; the work goes on in the background. */
  async file(request: RegulationRequest): Promise<string> {
    const { clock, store } = this.#parts;
    const id = clock.uuid();
    const regulation = { ...request, id, status: 'INITIALIZED', createdAt: clock.now(), finishedAt: null } as const;
    await store.saveRegulation(regulation);
    this.#begin();
    return id;
  }

  find(id: string): Promise<Regulation | null> {
    return this.#parts.store.regulation(id);
  }

  /** Takes up what a stopped or killed process left unfinished. */
  async resume(): Promise<void> {
    if ((await this.#parts.store.openRegulations()).length > 0) this.#begin();
  }

  /** Resolves once nothing is being worked on; what is unfinished stays for the next start. */
  async close(): Promise<void> {
    this.#stopping.abort();
    await this.#work;
  }

  /** Has all open requests looked at; what is filed after that look is seen by one more. */
  #begin(): void {
    if (this.#willLook) return;
    this.#willLook = true;
    this.#work = this.#work.then(() => this.#carryOutAll());
  }

  async #carryOutAll(): Promise<void> {
    const { store, log } = this.#parts;
    try {
      await this.#awaitTurn();
      this.#willLook = false;
      for (const regulation of await this.#retried(() => store.openRegulations())) await this.#carryOut(regulation);
    } catch (error) {
      // What is open stays so, and is looked for again.
      if (!(error instanceof Stopped)) log.error({ err: error }, 'deletion requests could not be looked at');
    } finally {
      this.#willLook = false;
      const fence = this.#turn?.fence;
      this.#turn = null;
      if (fence) await store.releaseLease(fence).catch(() => {});
    }
  }

  async #awaitTurn(): Promise<void> {
    const { store, clock } = this.#parts;
    for (;;) {
      const renewedAt = momentOf(clock);
      const fence = await this.#retried(() => store.takeLease(LEASE, LEASE_TTL));
      if (fence) {
        this.#turn = { fence, renewedAt };
        return;
      }
      await this.#pause(LEASE_STEP);
    }
  }

  async #keepTurn(): Promise<void> {
    const { store, clock } = this.#parts;
    if (this.#turn === null || longestSince(clock, this.#turn.renewedAt) < RENEW_AFTER) return;
    const now = momentOf(clock);
    if (!(await store.renewLease(this.#turn.fence, LEASE_TTL))) throw new Stopped();
    this.#turn.renewedAt = now;
  }

  async #carryOut(regulation: Regulation): Promise<void> {
    try {
      await this.#save(regulation, 'RUNNING');
      await this.#save(regulation, await this.#perform(regulation));
    } catch (error) {
      if (error instanceof Stopped) throw error;
      this.#parts.log.error({ err: error, regulation: regulation.id }, 'deletion request failed');
      await this.#save(regulation, 'FAILED').catch(() => {
        // The store is what fails: the request stays open, and the next start takes it up.
      });
    }
  }

  #save(regulation: Regulation, status: RegulationStatus): Promise<void> {
    const { clock, store } = this.#parts;
    const finishedAt = status === 'RUNNING' ? null : clock.now();
    return this.#retried(() => store.saveRegulation({ ...regulation, status, finishedAt }));
  }

  async #perform(regulation: Regulation): Promise<RegulationStatus> {
    const { type, sources, userIds } = regulation;
    const suppress = SUPPRESSES[type];
    if (suppress !== undefined) await this.#retried(() => this.#parts.store.suppress(userIds, sources, suppress));
    if (!DELETES.includes(type)) return 'FINISHED';
    const forgotten = await this.#forgetInEngines(regulation);
    await this.#eraseFromStore(regulation);
    await this.#notify(regulation);
    return forgotten ? 'FINISHED' : 'PARTIAL_SUCCESS';
  }

  /** An engine that can't be reached must not keep the receivers from being told. */
  async #forgetInEngines({ id, userIds, sources }: Regulation): Promise<boolean> {
    try {
      await this.#retried(() => this.#parts.forgetInEngines(userIds, sources));
      return true;
    } catch (error) {
      if (error instanceof Stopped) throw error;
      this.#parts.log.error({ err: error, regulation: id }, 'users could not be erased from an engine');
      return false;
    }
  }

  /** What is being posted comes back if it fails, so all is gone only once nothing is in flight. */
  async #eraseFromStore(regulation: Regulation): Promise<void> {
    const { clock } = this.#parts;
    const deadline = clock.monotonic() + IN_FLIGHT_WAIT;
    while ((await this.#erasePass(regulation)) > 0 && clock.monotonic() < deadline) await this.#pause(IN_FLIGHT_STEP);
  }

  async #erasePass({ userIds, sources }: Regulation): Promise<number> {
    let part = { cursor: null as string | null, inFlight: 0 };
    let inFlight = 0;
    do {
      const { cursor } = part;
      part = await this.#retried(() => this.#parts.store.erase(userIds, sources, cursor));
      inFlight = Math.max(inFlight, part.inFlight);
    } while (part.cursor !== null);
    return inFlight;
  }

  /** One notice per affected source and user, with ids that make a repetition a duplicate. */
  async #notify({ id, createdAt, sources, userIds }: Regulation): Promise<void> {
    const notices = userIds.map((userId, index) => deletionNotice(userId, `${id}-${index}`, createdAt));
    for (const source of this.#affectedSources(sources)) {
      for (let from = 0; from < notices.length; from += NOTICES) {
        const part = notices.slice(from, from + NOTICES);
        await this.#retried(() => this.#parts.accept(source, part, { lane: 'deletion' }));
      }
    }
  }

  /** The sources in the request's scope that an enabled destination is connected to. */
  #affectedSources(scope: readonly string[] | null): string[] {
    const { sources, destinations } = this.#parts;
    const connected = new Set(destinations().flatMap((each) => (each.enabled ? each.sources : [])));
    const ids = sources().map(({ id }) => id);
    return ids.filter((id) => connected.has(id) && (scope?.includes(id) ?? true));
  }

  async #retried<Result>(step: () => Promise<Result>): Promise<Result> {
    for (let attempt = 1; ; attempt += 1) {
      if (this.#stopping.signal.aborted) throw new Stopped();
      try {
        await this.#keepTurn();
        return await step();
      } catch (error) {
        if (attempt >= TRIES || error instanceof Stopped) throw error;
        await this.#pause(2 ** (attempt - 1) * 1000);
      }
    }
  }

  #pause(ms: number): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const { signal } = this.#stopping;
    if (signal.aborted) throw new Stopped();
    const stop = () => {
      cancel();
      reject(new Stopped());
    };
    const cancel = this.#parts.clock.after(ms, () => {
      signal.removeEventListener('abort', stop);
      resolve();
    });
    signal.addEventListener('abort', stop, { once: true });
    return promise;
  }
}
