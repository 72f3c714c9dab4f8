import { createHash } from 'node:crypto';
import type { AcceptResult, Backlog, DeadLetterFilter, EndpointState, NewMessage, Store } from './port.ts';

/** A store of several, with the name that sources are placed by. */
export interface Shard {
  readonly name: string;
  readonly store: Store;
}

/**
 * Several databases as one store, for all but delivery: each shard has a worker of its own, which claims from it under a
 * lease of its own, so that a shard that is down stops no other. Messages go by their source; runs, leases, deletion
 * requests and all membership changes are on the first shard, so that a run's step stays one transaction. A shard added
 * takes over its part of the sources from then on, and what was accepted before stays, and is delivered, where it is.
 */
export function shardedStore(shards: readonly Shard[]): Store {
  const stores = shards.map(({ store }) => store);
  const home = stores[0] as Store;
  const origins = new Origins(stores);
  const all = <T>(ask: (store: Store) => Promise<T>, of: readonly Store[] = stores) => Promise.all(of.map(ask));
  const total = async (ask: (store: Store) => Promise<number>, of?: readonly Store[]) =>
    (await all(ask, of)).reduce((sum, n) => sum + n, 0);

  return {
    ...home,
    accept: async ({ messages, step }) => (step ? home.accept({ messages, step }) : acceptEach(shards, messages)),
    backlog: async () => {
      const sums = new Map<string, Backlog>();
      for (const { destination, pending, dead } of (await all((store) => store.backlog())).flat()) {
        const sum = sums.get(destination) ?? { destination, pending: 0, dead: 0 };
        sums.set(destination, { destination, pending: sum.pending + pending, dead: sum.dead + dead });
      }
      return [...sums.values()];
    },
    endpoints: async () => {
      const worst = new Map<string, EndpointState>();
      for (const state of (await all((store) => store.endpoints())).flat()) {
        const { pausedAt, deadSince } = worst.get(state.endpoint) ?? state;
        worst.set(state.endpoint, {
          ...state,
          pausedAt: pausedAt ?? state.pausedAt,
          deadSince: deadSince ?? state.deadSince,
        });
      }
      return [...worst.values()];
    },
    markEndpoint: async (state) => void (await all((store) => store.markEndpoint(state))),
    attempts: async (filter) =>
      (await all((store) => store.attempts(filter)))
        .flat()
        .sort((a, b) => b.at - a.at)
        .slice(0, filter.limit),
    // Those of membership changes are at home: a sync asks for nothing else.
    deadLetters: (filter) => listLetters(filter.conflictPrefix === undefined ? stores : [home], origins, filter),
    replay: (replays) => total((store) => store.replay(replays)),
    drop: (ids) => total((store) => store.drop(ids), origins.holders(ids)),
    erase: (users, sources, cursor) => eraseEach(stores, users, sources, cursor),
    suppress: async (users, sources, on) => void (await all((store) => store.suppress(users, sources, on))),
    // With one of them there is something to take and to deliver.
    ping: () =>
      Promise.any(stores.map((store) => store.ping())).catch((error: AggregateError) =>
        Promise.reject(error.errors[0]),
      ),
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

  /** The shards that these ids may be of. */
  holders(ids: readonly string[]): readonly Store[] {
    const holders = new Set(ids.map((id) => this.of(id)));
    return holders.has(undefined) ? this.stores : this.stores.filter((store) => holders.has(store));
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
