import type { LiveSource } from '../../src/store/live.ts';
import type { Store } from '../../src/store/port.ts';
import { readReference } from './kept.ts';
import { readNews } from './new-events.ts';

/** Progress and size of a source's live computation. */
export interface LiveStatus {
  /** Milliseconds that it is behind; null until it is built. */
  readonly lag: number | null;
  /** Fraction done, from 0 to 1, while it is built or rebuilt; null otherwise. */
  readonly progress: number | null;
  /** Number of ids kept. */
  readonly ids: number;
  /** Number of persons for whom something may change by time alone. */
  readonly due: number;
  /** The reason that this audience is on hold; null while it sends. */
  readonly hold: string | null;
}

type StatusStore = Pick<Store, 'audience' | 'events' | 'live'>;

/** Status of the live audiences of some sources. */
interface LiveStatuses {
  /** Number of members as sent; null for an audience not yet in the store. */
  membersOf(key: string): number | null;
  statusOf(source: string, key: string): LiveStatus;
}

/** Reads each source once: its size and news are the same for all audiences that send as it. */
export async function liveStatuses(
  store: StatusStore,
  sources: ReadonlySet<string>,
  now: number,
): Promise<LiveStatuses> {
  const found = await Promise.all(
    [...sources].map(async (source) => {
      const known = await store.live.currentState(source);
      const next = await store.live.nextState(source);
      const { ids = 0, due = 0 } = known ?? {};
      const progress = next ? next.done / Math.max(1, next.total) : null;
      const anew = known?.isStale ? (progress ?? 0) : known?.isUnseen ? 1 : null;
      const built = { lag: await lagOf(store, known, now), progress: anew, ids, due };
      return [source, { built, fresh: next ? { ...built, lag: null, progress } : built }] as const;
    }),
  );
  const bySource = new Map(found);
  // The progress is read first, so that holds are never older than it.
  const audiences = new Map((await store.live.audiences()).map((audience) => [audience.key, audience]));
  const behind = new Set(await store.live.audiencesBehind());
  const statusOf = (source: string, key: string): LiveStatus => {
    const audience = audiences.get(key);
    const nothing = { lag: null, progress: null, ids: 0, due: 0 };
    const { built, fresh } = bySource.get(source) ?? { built: nothing, fresh: nothing };
    // An audience not yet in the store is not computed yet.
    if (!audience) return { ...fresh, hold: 'new' };
    // Its definition is recorded once everybody has been evaluated.
    const known = audience.definition === '' ? fresh : built;
    // After a hold the next step sends what changed in the meantime.
    return { ...known, hold: audience.hold ?? (behind.has(key) ? 'behind' : null) };
  };
  return { membersOf: (key) => audiences.get(key)?.members ?? null, statusOf };
}

async function lagOf(store: StatusStore, known: LiveSource | null, now: number): Promise<number | null> {
  if (known === null || known.isBuilding) return null;
  const news = await readNews(store.events, known.position, now);
  if (news === null) return null;
  const { since, next } = await store.live.personsDue(known.state, 0, 1);
  const old = await store.live.idsOlderThan(known.state, await store.events.firstDay(), 1);
  // It is not known when the log dropped a day, nor when an audience's members changed.
  const isBehind = old.length > 0 || (await hasNews(store, known.state));
  // Persons to evaluate in any case are due since 0.
  const first = Math.min(since || (next ?? now), isBehind || since === 0 ? now - 1 : now);
  const oldest = news.events.reduce((least, { receivedAt }) => Math.min(least, receivedAt), first);
  return Math.max(0, now - oldest);
}

/** True if an SQL audience was synced after its members were imported. */
async function hasNews(store: StatusStore, state: number): Promise<boolean> {
  for (const { key: name, version } of await store.live.namedAudiences(state)) {
    const record = await store.audience(readReference(name).key);
    if (version !== (record?.endedAt === null ? record.version : 0)) return true;
  }
  return false;
}
