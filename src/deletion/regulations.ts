import chunk from 'lodash/chunk.js';
import type { AcceptOptions } from '../accept.ts';
import type { Destination, Source } from '../destination.ts';
import type { Clock } from '../kernel/clock.ts';
import { keepLease, type Lease } from '../kernel/keep-lease.ts';
import { deletionNotice, type Message } from '../message.ts';
import {
  type DeletedIds,
  deletes,
  type ErasedIds,
  type Fence,
  isOver,
  type Regulation,
  type RegulationStatus,
  type RegulationType,
  type Store,
  type ToldPage,
} from '../store/port.ts';
import { type Connected, destinationsOf, withUsers } from './notices.ts';
import type { RegulationRequest } from './routes.ts';

export interface RegulationParts {
  readonly store: Pick<
    Store,
    | 'saveRegulation'
    | 'regulation'
    | 'stripRegulation'
    | 'openRegulations'
    | 'told'
    | 'erase'
    | 'forgetTexts'
    | 'scrub'
    | 'setUnlogged'
    | 'suppress'
    | 'takeLease'
    | 'renewLease'
    | 'releaseLease'
  >;
  readonly accept: (source: string, messages: readonly Message[], options: AcceptOptions) => Promise<unknown>;
  /** Release the deliveries that this process has claimed and not begun: only those waiting in the store are erased. */
  readonly giveBack?: () => Promise<void>;
  readonly sources: () => readonly Source[];
  readonly destinations: () => readonly Destination[];
  /** Destinations known to all live processes: in a rolling update, more than this one's. */
  readonly elsewhere: () => Promise<readonly Connected[]>;
  /** Which of these users are in audiences of these sources (null for all), and the destinations that know them. */
  readonly toldByEngines: (users: readonly string[], sources: readonly string[] | null) => Promise<ToldPage['told']>;
  /** Find the former and anonymous ids of the users of each list; if absent, they have none. */
  readonly resolveIds?: (users: readonly (readonly string[])[]) => Promise<readonly DeletedIds[]>;
  /** Erase ids from the event log. Several requests share one rewrite of its files. */
  readonly eraseFromLog?: (
    requests: readonly { readonly ids: ErasedIds; readonly sources: readonly string[] | null }[],
  ) => Promise<void>;
  /** Erase ids from the snapshots and plans of those audiences, and from the engines' files. */
  readonly forgetInEngines: (ids: ErasedIds, sources: readonly string[] | null) => Promise<void>;
  readonly clock: Clock;
  readonly log: { error(details: object, message: string): void };
}

/** Notices per transaction. */
const NOTICES = 500;
/**
 * Milliseconds to wait for deliveries about a user that are in flight. An attempt takes 5 s at most, but another process
 * may have claimed some hundred deliveries for a slow endpoint.
 */
const IN_FLIGHT_WAIT = 10 * 60_000;
const IN_FLIGHT_STEP = 250;
/** Tries of one step, with 1, 2, 4, … s between them: 17 minutes in all. */
const TRIES = 11;

const SUPPRESSES: Partial<Record<RegulationType, boolean>> = {
  SUPPRESS_ONLY: true,
  SUPPRESS_WITH_DELETE: true,
  UNSUPPRESS: false,
};

/** A request with its ids. */
type Resolved = Regulation & { readonly ids: DeletedIds };

const LEASE = 'regulations';
/** A request whose users are forgotten already. */
const NO_IDS: DeletedIds = { notified: [], named: [], users: [], anonymous: [] };
/** Milliseconds between tries to get the lease. */
const LEASE_STEP = 1_000;

/** Thrown when this process stops, or another has taken over. */
class Stopped extends Error {}

/**
 * Carries out deletion requests, oldest first, in one process at a time: a late process must not suppress a user who was
 * admitted again. Every step can be repeated, so a crash anywhere does no harm.
 */
export class Regulations {
  private readonly parts: RegulationParts;
  private readonly stopping = new AbortController();
  private work = Promise.resolve();
  /** True while a pass over the open requests is scheduled. */
  private willLook = false;
  private lease: Lease<Fence> | null = null;
  /** Requests whose users are still in the event log. */
  private awaitingLog: readonly Resolved[] = [];

  constructor(parts: RegulationParts) {
    this.parts = parts;
  }

  /** Resolves to the request's id once it is durable. The work continues in the background. */
  async file(request: RegulationRequest): Promise<string> {
    const { clock, store } = this.parts;
    const id = clock.uuid();
    const begun = { status: 'INITIALIZED', createdAt: clock.now(), finishedAt: null } as const;
    await store.saveRegulation({
      ...request,
      id,
      ...begun,
      subjects: request.userIds.length,
      hashes: [],
      told: null,
      partial: false,
    });
    this.begin();
    return id;
  }

  find(id: string): Promise<Regulation | null> {
    return this.parts.store.regulation(id);
  }

  /** Resume requests that a stopped or killed process left unfinished. */
  async resume(): Promise<void> {
    if ((await this.parts.store.openRegulations()).length > 0) this.begin();
  }

  /** Resolves once no work is under way. Unfinished requests are left to the next start. */
  async close(): Promise<void> {
    this.stopping.abort(new Stopped());
    await this.work;
  }

  /** Schedule a pass over all open requests. Requests filed after it has read them get another pass. */
  private begin(): void {
    if (this.willLook) return;
    this.willLook = true;
    this.work = this.work.then(() => this.carryOutAll());
  }

  private async carryOutAll(): Promise<void> {
    const { store, log } = this.parts;
    try {
      await this.takeLease();
      this.willLook = false;
      const open = await this.retried(() => store.openRegulations());
      const resolved = await this.resolved(open);
      this.awaitingLog = resolved.filter(({ type, userIds }) => deletes(type) && userIds.length > 0);
      for (const regulation of resolved) await this.carryOut(regulation);
    } catch (error) {
      // Open requests stay open for the next pass.
      if (!(error instanceof Stopped)) log.error({ err: error }, 'Could not read the open deletion requests');
    } finally {
      this.willLook = false;
      await this.lease?.release();
      this.lease = null;
    }
  }

  private async takeLease(): Promise<void> {
    const { store, clock } = this.parts;
    for (;;) {
      this.lease = await this.retried(() => keepLease(store, clock, LEASE));
      if (this.lease) return;
      await this.sleep(LEASE_STEP);
    }
  }

  /** @throws Stopped when another process has taken over */
  private async checkLease(): Promise<void> {
    await this.lease?.check().catch(() => {
      throw new Stopped();
    });
  }

  /** Find and store the ids of all requests before any is carried out: once aliases are erased, nobody could say. */
  private async resolved(open: readonly Regulation[]): Promise<readonly Resolved[]> {
    const fresh = open.filter(({ ids, userIds }) => ids === undefined && userIds.length > 0);
    const found = await this.idsOf(fresh.map(({ userIds }) => userIds));
    const resolved = open.map((regulation) => {
      const ids = regulation.ids ?? found.ids[fresh.indexOf(regulation)] ?? NO_IDS;
      return { ...regulation, ids, partial: regulation.partial || (fresh.includes(regulation) && found.partial) };
    });
    for (const each of resolved) await this.save(each, 'RUNNING');
    return resolved;
  }

  /** Only the named users if the log can't be read: that must not hold back their notices. */
  private async idsOf(users: readonly (readonly string[])[]) {
    const alone = users.map((named) => ({ notified: named, named, users: named, anonymous: named }));
    const { resolveIds } = this.parts;
    if (users.length === 0 || !resolveIds) return { ids: alone, partial: false };
    try {
      return { ids: await this.retried(() => resolveIds(users)), partial: false };
    } catch (error) {
      if (error instanceof Stopped) throw error;
      this.parts.log.error({ err: error }, 'Could not find the former and anonymous ids of users to delete');
      return { ids: alone, partial: true };
    }
  }

  private async carryOut(regulation: Resolved): Promise<void> {
    try {
      await this.perform(regulation);
      await this.end(regulation.id, 'FINISHED');
    } catch (error) {
      if (error instanceof Stopped) throw error;
      this.parts.log.error({ err: error, regulation: regulation.id }, 'The deletion request failed');
      await this.end(regulation.id, 'FAILED').catch(() => {
        // The store has failed: the request stays open, and the next start resumes it.
      });
    }
  }

  private async end(id: string, status: RegulationStatus): Promise<void> {
    const regulation = await this.retried(() => this.parts.store.regulation(id));
    const isPartial = regulation?.partial && status === 'FINISHED';
    if (regulation) await this.save(regulation, isPartial ? 'PARTIAL_SUCCESS' : status);
  }

  private save(regulation: Regulation, status: RegulationStatus): Promise<void> {
    const { clock, store } = this.parts;
    const finishedAt = isOver(status) ? clock.now() : null;
    return this.retried(() => store.saveRegulation({ ...regulation, status, finishedAt }));
  }

  private async perform(regulation: Resolved): Promise<void> {
    const { id, type, sources, userIds, ids } = regulation;
    const { store } = this.parts;
    const suppress = SUPPRESSES[type];
    if (suppress !== undefined) await this.retried(() => store.suppress(ids.notified, sources, suppress, ids.named));
    let notices: Regulation['notices'];
    // A request without users has only its last step left.
    if (deletes(type) && userIds.length > 0) {
      const known = await this.findTold(regulation);
      const unlogged = await this.eraseFromLog(known);
      const forgotten = await this.forgetInEngines(known);
      const erased = await this.eraseFromStore(known);
      await this.retried(() => store.forgetTexts([...new Set([...ids.users, ...ids.anonymous])], sources));
      notices = await this.notify(known);
      if (!unlogged || !forgotten || !erased) await this.save({ ...known, partial: true }, 'RUNNING');
    }
    // Scrub last, so that the ids of the record itself are removed from the files too.
    await this.retried(() => store.stripRegulation(id, notices));
    await this.retried(() => store.scrub());
  }

  /** Find and store the destinations that know the users. Once the users are erased, nobody could say. */
  private async findTold(regulation: Resolved): Promise<Resolved> {
    if (regulation.told !== null) return regulation;
    const { store } = this.parts;
    const { ids, sources } = regulation;
    const { notified } = ids;
    const found = [...(await this.retried(() => this.parts.toldByEngines(notified, sources)))];
    let cursor: string | null = null;
    do {
      const from: string | null = cursor;
      const page: ToldPage = await this.retried(() => store.told(notified, sources, from));
      found.push(...page.told);
      cursor = page.cursor;
    } while (cursor !== null);
    const known = { ...regulation, told: withUsers(found, notified) };
    await this.save(known, 'RUNNING');
    return known;
  }

  /** Erase the users of all open requests together, so that the files are rewritten only once. */
  private async eraseFromLog({ id }: Regulation): Promise<boolean> {
    const { eraseFromLog, store } = this.parts;
    const requests = this.awaitingLog;
    if (!eraseFromLog || !requests.some((request) => request.id === id)) return true;
    try {
      const all = requests.map((request) => request.id);
      // A request that was interrupted is repeated: then the log loses again what it has.
      await this.retried(() => store.setUnlogged(all, false));
      await this.retried(() => eraseFromLog(requests.map(({ ids, sources }) => ({ ids, sources }))));
      await this.retried(() => store.setUnlogged(all, true));
      this.awaitingLog = [];
      return true;
    } catch (error) {
      if (error instanceof Stopped) throw error;
      this.parts.log.error({ err: error, regulation: id }, 'Could not erase users from the event log');
      return false;
    }
  }

  /** False on failure: an unreachable engine must not hold back the notices. */
  private async forgetInEngines({ id, ids, sources }: Resolved): Promise<boolean> {
    try {
      await this.retried(() => this.parts.forgetInEngines(ids, sources));
      return true;
    } catch (error) {
      if (error instanceof Stopped) throw error;
      this.parts.log.error({ err: error, regulation: id }, 'Could not erase users from an engine');
      return false;
    }
  }

  /** Erase until nothing is in flight, since a failed post is queued again. False if that takes too long. */
  private async eraseFromStore(regulation: Resolved): Promise<boolean> {
    const { clock, log } = this.parts;
    const deadline = clock.monotonic() + IN_FLIGHT_WAIT;
    // Pass again once nothing is in flight: deliveries that expired or were requeued in between have changed tables.
    for (let calm = 0; calm < 2; ) {
      if ((await this.erasePass(regulation)) === 0) {
        calm += 1;
        continue;
      }
      calm = 0;
      if (clock.monotonic() >= deadline) {
        log.error({ regulation: regulation.id }, 'Gave up waiting for messages about these users that are in flight');
        return false;
      }
      await this.sleep(IN_FLIGHT_STEP);
    }
    return true;
  }

  private async erasePass({ ids, sources }: Resolved): Promise<number> {
    let page = { cursor: null as string | null, inFlight: 0 };
    let inFlight = 0;
    await this.retried(async () => this.parts.giveBack?.());
    do {
      const { cursor } = page;
      page = await this.retried(() => this.parts.store.erase(ids, sources, cursor));
      inFlight = Math.max(inFlight, page.inFlight);
    } while (page.cursor !== null);
    return inFlight;
  }

  /**
   * Send one notice per affected source and user, with ids that make a repetition a duplicate. Resolves to the number for
   * each destination.
   */
  private async notify(regulation: Resolved): Promise<Readonly<Record<string, number>>> {
    const { id, createdAt, ids } = regulation;
    const { sources, destinations, elsewhere } = this.parts;
    const known = [...destinations(), ...(await this.retried(elsewhere))];
    const notices = ids.notified.map((userId, index) => deletionNotice(userId, `${id}-${index}`, createdAt));
    const froms = [...new Set([...sources().map((source) => source.id), ...known.flatMap((each) => each.sources)])];
    const counts = new Map<string, number>();
    for (const { source, to, users } of destinationsOf(regulation, froms, known)) {
      for (const name of to) counts.set(name, (counts.get(name) ?? 0) + users.length);
      for (const some of chunk(users, NOTICES)) {
        const part = some.map((index) => notices[index] as Message);
        await this.retried(() => this.parts.accept(source, part, { lane: 'deletion', to }));
      }
    }
    return Object.fromEntries(counts);
  }

  private async retried<Result>(step: () => Promise<Result>): Promise<Result> {
    for (let attempt = 1; ; attempt += 1) {
      if (this.stopping.signal.aborted) throw new Stopped();
      try {
        await this.checkLease();
        return await step();
      } catch (error) {
        if (attempt >= TRIES || error instanceof Stopped) throw error;
        await this.sleep(2 ** (attempt - 1) * 1000);
      }
    }
  }

  /** @throws Stopped */
  private sleep(ms: number): Promise<void> {
    return this.parts.clock.sleep(ms, this.stopping.signal);
  }
}
