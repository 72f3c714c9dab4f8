import type { Clock } from '../kernel/clock.ts';
import type { Logger } from '../kernel/log.ts';
import {
  type AcceptResult,
  type HistoryCounts,
  type HistoryEntry,
  OUTCOMES,
  type Run,
  type Store,
  stepOf,
} from '../store/port.ts';
import { Tally } from './tally.ts';

/** Milliseconds between two writes: a crash loses the counts since the last. */
const WRITE_EVERY = 10_000;
/** Batches kept while the store fails; beyond that the oldest are dropped. */
const BATCHES_KEPT = 30;
const PRUNE_STEP = 1_000;
/** One process samples the backlog each minute: the first to take the lease, which expires before the next. */
const LEASE = 'history';
const LEASE_TTL = 50_000;

interface HistoryOptions {
  readonly store: Pick<
    Store,
    'time' | 'addHistory' | 'pruneHistory' | 'trustsClocks' | 'takeLease' | 'backlog' | 'oldestUntried'
  >;
  readonly live: { audiences(): Promise<readonly { readonly key: string; readonly members: number }[]> };
  readonly clock: Clock;
  readonly log: Logger;
}

interface HistoryBatch {
  readonly at: number;
  readonly entries: readonly HistoryEntry[];
}

type Counts = { -readonly [Name in keyof HistoryCounts]?: number };

/** Counts traffic and adds it to the store's history every few seconds: nothing is written for a single delivery. */
export class History {
  readonly tally: Tally;
  private readonly options: HistoryOptions;
  /** Counts of sources and audiences since the last write. */
  private readonly sources = new Map<string, Counts>();
  private readonly audiences = new Map<string, { readonly counts: Counts; members?: number }>();
  /** Values of each tally at the last write. */
  private readonly written = new Map<object, readonly number[]>();
  /** Start of the next batch. */
  private since: number;
  private sampled = 0;
  private batches: HistoryBatch[] = [];
  private isFailing = false;
  private cancel = () => {};
  private writing: Promise<void> = Promise.resolve();
  private stopped = false;

  constructor(options: HistoryOptions) {
    this.options = options;
    this.tally = new Tally(() => options.store.time.now());
    this.since = options.clock.now();
  }

  /** @param counts - all messages by destination; those that were not new are subtracted in proportion */
  accepted(source: string, result: AcceptResult, counts: ReadonlyMap<string, number>): void {
    const { accepted, duplicates, suppressed } = result;
    add(this.source(source), { accepted, duplicates, suppressed });
    const share = accepted / (accepted + duplicates + suppressed);
    if (share === 1) this.tally.accepted(counts);
    else if (share > 0) {
      this.tally.accepted(new Map([...counts].map(([name, count]) => [name, Math.round(count * share)])));
    }
  }

  discarded(source: string): void {
    add(this.source(source), { discarded: 1 });
  }

  reported({ key, runs, failed }: { readonly key: string; readonly runs: readonly Run[]; readonly failed: boolean }) {
    const audience = this.audiences.get(key) ?? { counts: {} };
    for (const { state, action, entered, exited, members } of runs) {
      if (state !== 'done') continue;
      add(audience.counts, { runs: 1 });
      // A resync changes nobody's membership.
      if (action === 'sync') add(audience.counts, { entered, exited });
      audience.members = action === 'retire' ? 0 : members;
    }
    if (failed) add(audience.counts, { failed: 1 });
    this.audiences.set(key, audience);
  }

  /** Counts users whose changes live audiences sent as they were computed. */
  moved(all: readonly { readonly key: string; readonly entered: number; readonly exited: number }[]): void {
    for (const { key, entered, exited } of all) {
      const audience = this.audiences.get(key) ?? { counts: {} };
      add(audience.counts, { entered, exited });
      this.audiences.set(key, audience);
    }
  }

  start(): void {
    this.since = this.options.clock.now();
    this.plan();
  }

  /** Writes the remaining counts. */
  async stop(): Promise<void> {
    this.stopped = true;
    this.cancel();
    await this.writing;
    this.cut();
    await this.write();
  }

  private source(id: string): Counts {
    const counts = this.sources.get(id) ?? {};
    this.sources.set(id, counts);
    return counts;
  }

  /** Schedules writes at full ten seconds, so that a batch falls into one minute. */
  private plan(): void {
    const { clock } = this.options;
    const wait = WRITE_EVERY - (clock.now() % WRITE_EVERY);
    this.cancel = clock.after(wait, () => {
      this.writing = this.beat().then(() => {
        if (!this.stopped) this.plan();
      });
    });
  }

  private async beat(): Promise<void> {
    this.cut();
    const minute = stepOf(this.options.clock.now(), 'minute');
    if (minute !== this.sampled && !this.stopped) {
      this.sampled = minute;
      await this.lookAfter(minute);
    }
    await this.write();
  }

  /** Ends a batch. */
  private cut(): void {
    const at = this.since;
    this.since = this.options.clock.now();
    const entries = this.entries();
    if (entries.length === 0) return;
    this.batches.push({ at, entries });
    if (this.batches.length > BATCHES_KEPT) this.batches.shift();
  }

  private async write(): Promise<void> {
    try {
      for (let batch = this.batches[0]; batch; batch = this.batches[0]) {
        await this.options.store.addHistory(batch.at, batch.entries);
        this.batches.shift();
      }
      this.isFailing = false;
    } catch (error) {
      if (!this.isFailing) this.options.log.warn({ err: error }, 'Could not write the history; retrying');
      this.isFailing = true;
    }
  }

  /** Samples the backlog and prunes, unless another process does. */
  private async lookAfter(at: number): Promise<void> {
    const { store, clock, log } = this.options;
    try {
      if ((await store.takeLease(LEASE, LEASE_TTL)) === null) return;
      this.batches.push({ at, entries: [...(await this.backlog()), ...(await this.liveSizes())] });
      if (!(await store.trustsClocks(clock.now()))) return;
      while ((await store.pruneHistory(clock.now(), PRUNE_STEP)) === PRUNE_STEP && !this.stopped);
    } catch (error) {
      log.debug({ err: error }, 'Could not read the backlog; retrying in a minute');
    }
  }

  private async backlog(): Promise<readonly HistoryEntry[]> {
    const { store, clock } = this.options;
    const now = clock.now();
    const ages = new Map((await store.oldestUntried()).map(({ destination, since }) => [destination, now - since]));
    const waiting = (await store.backlog()).filter(({ pending }) => pending > 0);
    const destinations = waiting.map(
      ({ destination, pending }): HistoryEntry => ({
        ...{ subject: 'destination', name: destination, pending },
        oldest: Math.max(0, ages.get(destination) ?? 0),
      }),
    );
    const pending = waiting.reduce((sum, each) => sum + each.pending, 0);
    const oldest = Math.max(0, ...destinations.map((each) => each.oldest ?? 0));
    // Written even if empty: it shows that a process was running.
    return [...destinations, { subject: 'all', name: '', pending, oldest }];
  }

  /** Samples live audiences, which change between runs. */
  private async liveSizes(): Promise<readonly HistoryEntry[]> {
    const all = await this.options.live.audiences();
    return all.map(({ key, members }) => ({ subject: 'audience', name: key, members }));
  }

  private entries(): HistoryEntry[] {
    const destinations = this.ofDestinations();
    const sources = [...this.sources].map(([name, counts]): HistoryEntry => ({ subject: 'source', name, counts }));
    const audiences = [...this.audiences].map(
      ([name, { counts, members }]): HistoryEntry => ({
        ...{ subject: 'audience', name, counts },
        ...(members === undefined ? {} : { members }),
      }),
    );
    const all = sumOf(destinations, sources);
    this.sources.clear();
    this.audiences.clear();
    return [...all, ...destinations, ...this.ofEndpoints(), ...sources, ...audiences];
  }

  private ofDestinations(): HistoryEntry[] {
    return [...this.tally.destinations].flatMap(([name, tally]) => {
      const { delivered, retry, dead } = tally.verdicts;
      const grown = this.grown(tally, [tally.accepted, delivered, retry, dead, ...tally.took.counts]);
      if (grown === null) return [];
      const [accepted = 0, taken = 0, retried = 0, died = 0, ...took] = grown;
      const counts = { accepted, delivered: taken, retried, dead: died };
      return [{ subject: 'destination', name, counts, took } satisfies HistoryEntry];
    });
  }

  private ofEndpoints(): HistoryEntry[] {
    return [...this.tally.endpoints].flatMap(([name, tally]) => {
      const grown = this.grown(tally, [...tally.outcomes, ...tally.took.counts]);
      if (grown === null) return [];
      const of = (outcome: (typeof OUTCOMES)[number]) => grown[OUTCOMES.indexOf(outcome)] ?? 0;
      const retried = of('retry') + of('tls_untrusted') + of('address_refused');
      const counts = { delivered: of('success'), retried, dead: of('refused') };
      return [{ subject: 'endpoint', name, counts, took: grown.slice(OUTCOMES.length) } satisfies HistoryEntry];
    });
  }

  /** Growth of each number since the last call; null if none has grown. */
  private grown(tally: object, now: readonly number[]): number[] | null {
    const before = this.written.get(tally) ?? [];
    const grown = now.map((value, place) => value - (before[place] ?? 0));
    if (!grown.some((value) => value > 0)) return null;
    this.written.set(tally, now);
    return grown;
  }
}

function add(counts: Counts, more: Partial<HistoryCounts>): void {
  for (const [name, count] of Object.entries(more) as [keyof HistoryCounts, number][]) {
    counts[name] = (counts[name] ?? 0) + count;
  }
}

/** Sums up; messages count once, however many destinations they go to. */
function sumOf(destinations: readonly HistoryEntry[], sources: readonly HistoryEntry[]): HistoryEntry[] {
  if (destinations.length + sources.length === 0) return [];
  const sum = (of: readonly HistoryEntry[], name: keyof HistoryCounts) =>
    of.reduce((total, { counts }) => total + (counts?.[name] ?? 0), 0);
  const counts = {
    accepted: sum(sources, 'accepted'),
    delivered: sum(destinations, 'delivered'),
    retried: sum(destinations, 'retried'),
    dead: sum(destinations, 'dead'),
  };
  const took = (destinations[0]?.took ?? []).map((_, place) =>
    destinations.reduce((total, each) => total + (each.took?.[place] ?? 0), 0),
  );
  return [{ subject: 'all', name: '', counts, took }];
}
