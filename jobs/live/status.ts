import type { LiveSource } from '../../src/store/live.ts';
import type { Store } from '../../src/store/port.ts';
import { readNews } from './new-events.ts';

/** How the live computation of a source stands. */
export interface LiveStatus {
  /** Milliseconds that it is behind; null while it has yet to be built. */
  readonly lag: number | null;
  /** While it is computed over the log, or anew: how much of that is done, from 0 to 1. */
  readonly progress: number | null;
  /** Ids of which something is kept. */
  readonly ids: number;
  /** Persons for whom something may change by time alone. */
  readonly due: number;
  /** Why this audience sends nothing as it is computed; null while it does. */
  readonly hold: string | null;
}

type StatusStore = Pick<Store, 'audience' | 'events' | 'live'>;

/** How the live audiences of some sources stand. */
interface LiveStatuses {
  /** Members by what was sent; null for one that the store does not know yet. */
  membersOf(key: string): number | null;
  statusOf(source: string, key: string): LiveStatus;
}

/** Asks for each source once, however many audiences speak as it: its size and its news are the same for all. */
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
  // How far it is comes first: what is on hold by then is so because of what has been computed.
  const audiences = new Map((await store.live.audiences()).map((audience) => [audience.key, audience]));
  const behind = new Set(await store.live.audiencesBehind());
  const statusOf = (source: string, key: string): LiveStatus => {
    const audience = audiences.get(key);
    const nothing = { lag: null, progress: null, ids: 0, due: 0 };
    const { built, fresh } = bySource.get(source) ?? { built: nothing, fresh: nothing };
    // One that the store does not know yet is computed by nobody so far.
    if (!audience) return { ...fresh, hold: 'new' };
    // Its definition is recorded once everybody has been looked at by it.
    const known = audience.definition === '' ? fresh : built;
    // After a hold the next step tells what changed meanwhile.
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
  // Since when the log has forgotten a day is not known, nor since when an audience has other members.
  const isBehind = old.length > 0 || (await hasNews(store, known.state));
  // Those who are to be looked at in any case are due since 0.
  const first = Math.min(since || (next ?? now), isBehind || since === 0 ? now - 1 : now);
  const oldest = news.events.reduce((least, { receivedAt }) => Math.min(least, receivedAt), first);
  return Math.max(0, now - oldest);
}

/** Whether an audience by SQL was synced since its members were taken over. */
async function hasNews(store: StatusStore, state: number): Promise<boolean> {
  for (const { key, version } of await store.live.namedAudiences(state)) {
    const record = await store.audience(key);
    if (version !== (record?.endedAt === null ? record.version : 0)) return true;
  }
  return false;
}
