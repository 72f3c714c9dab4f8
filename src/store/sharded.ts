import { createHash } from 'node:crypto';
import type { AcceptResult, Claim, ClaimRequest, ClaimResult, DeadLetterFilter, NewMessage, Store } from './port.ts';

/** A store of several, with the name that sources are placed by. */
export interface Shard {
  readonly name: string;
  readonly store: Store;
}

/**
 * Several databases as one store. Messages go by their source; runs, leases and all membership changes to the first
 * shard, so that a run's step stays one transaction. Claims come from all shards: a shard added takes over its part of
 * the sources from then on, and what was accepted before stays, and is delivered, where it is.
 */
export function shardedStore(shards: readonly Shard[]): Store {
  const stores = shards.map(({ store }) => store);
  const home = stores[0] as Store;
  const owners = new Owners(stores);
  const origins = new Origins(stores);
  const all = <T>(ask: (store: Store) => Promise<T>) => Promise.all(stores.map(ask));
  const total = async (ask: (store: Store) => Promise<number>) => (await all(ask)).reduce((sum, n) => sum + n, 0);

  return {
    accept: async ({ messages, step }) => (step ? home.accept({ messages, step }) : acceptEach(shards, messages)),
    join: (ttl) => owners.join(ttl),
    heartbeat: async (owner, ttl) =>
      (await owners.each(owner, (store, own) => store.heartbeat(own, ttl))).every((held) => held),
    leave: async (owner) => void (await owners.each(owner, (store, own) => store.leave(own))),
    rescue: () => total((store) => store.rescue()),
    claim: (owner, requests) => claimEach(stores, owners, origins, owner, requests),
    settle: async (owner, settlements) => {
      await owners.each(owner, async (store, own) => {
        const mine = settlements.filter(({ claim }) => origins.of(claim.id) === store);
        if (mine.length > 0) await store.settle(own, mine);
      });
    },
    expire: (destination, before, untriedToo, limit) =>
      upTo(limit, stores, (store, rest) => store.expire(destination, before, untriedToo, rest)),
    bury: (destination, limit) => upTo(limit, stores, (store, rest) => store.bury(destination, rest)),
    backlog: async () => {
      const sums = new Map<string, { destination: string; pending: number; dead: number }>();
      for (const { destination, pending, dead } of (await all((store) => store.backlog())).flat()) {
        const sum = sums.get(destination) ?? { destination, pending: 0, dead: 0 };
        sums.set(destination, { destination, pending: sum.pending + pending, dead: sum.dead + dead });
      }
      return [...sums.values()];
    },
    endpoints: () => home.endpoints(),
    markEndpoint: (state) => home.markEndpoint(state),
    attempts: async (filter) =>
      (await all((store) => store.attempts(filter)))
        .flat()
        .sort((a, b) => b.at - a.at)
        .slice(0, filter.limit),
    prune: (before, limit) => upTo(limit, stores, (store, rest) => store.prune(before, rest)),
    deadLetters: (filter) => listLetters(stores, origins, filter),
    replay: (replays) => total((store) => store.replay(replays)),
    drop: (ids) => total((store) => store.drop(ids)),
    takeLease: (lease, ttl) => home.takeLease(lease, ttl),
    renewLease: (fence, ttl) => home.renewLease(fence, ttl),
    releaseLease: (fence) => home.releaseLease(fence),
    audience: (key) => home.audience(key),
    audiences: () => home.audiences(),
    forgetAudience: (key, fence) => home.forgetAudience(key, fence),
    saveRun: (run, fence, audience) => home.saveRun(run, fence, audience),
    run: (id) => home.run(id),
    runs: (filter) => home.runs(filter),
    runProgress: (run) => home.runProgress(run),
    saveRegulation: (regulation) => home.saveRegulation(regulation),
    regulation: (id) => home.regulation(id),
    openRegulations: () => home.openRegulations(),
    erase: (users, sources, cursor) => eraseEach(stores, users, sources, cursor),
    suppress: async (users, sources, on) => void (await all((store) => store.suppress(users, sources, on))),
    ping: async () => void (await all((store) => store.ping())),
    close: async () => void (await all((store) => store.close())),
  };
}

/** The shard whose hash with the source is the highest: a new shard takes sources over, and none moves between the others. */
export function shardOf<S extends Pick<Shard, 'name'>>(shards: readonly S[], source: string): S {
  const weight = ({ name }: S) => createHash('sha256').update(`${name}\0${source}`).digest('hex');
  return shards.reduce((best, shard) => (weight(shard) > weight(best) ? shard : best));
}

/** A batch is of one source as a rule; one of several is not written at once, but sent again it is deduplicated. */
async function acceptEach(shards: readonly Shard[], messages: readonly NewMessage[]): Promise<AcceptResult> {
  const home = shards[0] as Shard;
  const placed = Map.groupBy(messages, ({ source, conflict }) => (conflict === null ? shardOf(shards, source) : home));
  let sum: AcceptResult = { accepted: 0, duplicates: 0, suppressed: 0 };
  for (const [{ store }, part] of placed) {
    const { accepted, duplicates, suppressed } = await store.accept({ messages: part, step: null });
    sum = {
      accepted: sum.accepted + accepted,
      duplicates: sum.duplicates + duplicates,
      suppressed: sum.suppressed + suppressed,
    };
  }
  return sum;
}

/** One number for a process's owners in all shards. */
class Owners {
  private readonly stores: readonly Store[];
  private readonly joined = new Map<number, readonly number[]>();
  private last = 0;

  constructor(stores: readonly Store[]) {
    this.stores = stores;
  }

  async join(ttl: number): Promise<number> {
    const owners = await Promise.all(this.stores.map((store) => store.join(ttl)));
    this.last += 1;
    this.joined.set(this.last, owners);
    return this.last;
  }

  each<T>(owner: number, work: (store: Store, own: number) => Promise<T>): Promise<T[]> {
    return Promise.all(this.stores.map((store, index) => work(store, this.of(owner, index))));
  }

  of(owner: number, index: number): number {
    return this.joined.get(owner)?.[index] ?? 0;
  }
}

/** Which shard an id is of: the first half of ids is the store's own. */
class Origins {
  private readonly stores: readonly Store[];
  private readonly known = new Map<string, Store>();

  constructor(stores: readonly Store[]) {
    this.stores = stores;
  }

  note(id: string, store: Store): void {
    this.known.set(prefixOf(id), store);
  }

  of(id: string): Store | undefined {
    return this.known.get(prefixOf(id));
  }

  /** As `of`, asking each shard for a dead letter if need be. */
  async ofLetter(id: string): Promise<Store | undefined> {
    if (!this.of(id)) {
      for (const store of this.stores) {
        const [letter] = await store.deadLetters({ limit: 1 });
        if (letter) this.note(letter.id, store);
      }
    }
    return this.of(id);
  }
}

const prefixOf = (id: string) => id.slice(0, id.lastIndexOf('-'));

let turns = 0;

/** In turn, starting with another shard each time; one that fails is passed over unless all do. */
async function claimEach(
  stores: readonly Store[],
  owners: Owners,
  origins: Origins,
  owner: number,
  requests: readonly ClaimRequest[],
): Promise<ClaimResult> {
  const claims: Claim[][] = requests.map(() => []);
  const nextDue: Record<string, number | null> = {};
  const start = turns++ % stores.length;
  let failure: { error: unknown; times: number } = { error: null, times: 0 };
  for (let n = 0; n < stores.length; n += 1) {
    const index = (start + n) % stores.length;
    const store = stores[index] as Store;
    const open = requests
      .map((request, i) => ({ i, request: { ...request, limit: request.limit - (claims[i]?.length ?? 0) } }))
      .filter(({ request }) => request.limit > 0);
    if (open.length === 0) break;
    try {
      const given = open.map(({ request }) => request);
      const result = await store.claim(owners.of(owner, index), given);
      for (const [j, { i }] of open.entries()) {
        for (const claim of result.claims[j] ?? []) {
          origins.note(claim.id, store);
          claims[i]?.push(claim);
        }
      }
      for (const [destination, due] of Object.entries(result.nextDue)) {
        const known = nextDue[destination] ?? null;
        nextDue[destination] = due === null || (known !== null && known < due) ? known : due;
      }
    } catch (error) {
      failure = { error, times: failure.times + 1 };
    }
  }
  if (failure.times === stores.length) throw failure.error;
  return { claims, nextDue };
}

async function upTo(
  limit: number,
  stores: readonly Store[],
  work: (store: Store, rest: number) => Promise<number>,
): Promise<number> {
  let done = 0;
  for (const store of stores) if (done < limit) done += await work(store, limit - done);
  return done;
}

/** Shard after shard, each in the order of its ids. */
async function listLetters(stores: readonly Store[], origins: Origins, { after, ...filter }: DeadLetterFilter) {
  const from = after === undefined ? undefined : await origins.ofLetter(after);
  const first = from === undefined ? 0 : stores.indexOf(from);
  const letters = [];
  for (const store of stores.slice(first)) {
    const rest = filter.limit - letters.length;
    if (rest <= 0) break;
    const page = { ...filter, limit: rest, ...(store === from && after !== undefined ? { after } : {}) };
    const found = await store.deadLetters(page);
    for (const { id } of found) origins.note(id, store);
    letters.push(...found);
  }
  return letters;
}

/** The cursor is a shard's own, behind the shard's place in the list. */
async function eraseEach(
  stores: readonly Store[],
  users: readonly string[],
  sources: readonly string[] | null,
  cursor: string | null,
) {
  const place = cursor?.indexOf('/') ?? -1;
  const index = cursor === null ? 0 : Number(cursor.slice(0, place));
  const inner = cursor === null ? '' : cursor.slice(place + 1);
  const step = await (stores[index] as Store).erase(users, sources, inner === '' ? null : inner);
  if (step.cursor !== null) return { cursor: `${index}/${step.cursor}`, inFlight: step.inFlight };
  if (index + 1 < stores.length) return { cursor: `${index + 1}/`, inFlight: step.inFlight };
  const counts = await Promise.all(stores.map(async (store) => (await store.erase(users, sources, null)).inFlight));
  return { cursor: null, inFlight: counts.reduce((sum, count) => sum + count, 0) };
}
