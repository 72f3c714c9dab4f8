import type { ErasedIds } from '../src/store/deleted-ids.ts';
import type { Store } from '../src/store/port.ts';
import { computations, type SyncConfig } from './audience-or-trait.ts';
import { forgetKept } from './live/forget.ts';
import type { WithEngine } from './open-engines.ts';
import { configured } from './run/audience-subjects.ts';
import { movesFrom } from './run/move-snapshot.ts';
import type { JobLog } from './run/run-context.ts';

/** A user, and a destination that was notified about the user by a source. */
export interface ToldUser {
  readonly source: string;
  readonly destination: string;
  readonly user: string;
}

interface ForgetParts {
  readonly store: Pick<Store, 'audiences' | 'live'>;
  readonly config: () => SyncConfig;
  readonly withEngine: WithEngine;
  readonly log: JobLog;
}

/** Audiences by the engines that have their snapshots. While one moves, both have it. */
async function byEngine({ store, config }: ForgetParts, sources: readonly string[] | null) {
  const audiences = (await store.audiences()).filter(({ source }) => sources?.includes(source) ?? true);
  const now = new Map(computations(config()).map((each) => [each.key, configured(each, config())]));
  const places = audiences.flatMap((record) => {
    const subject = now.get(record.key);
    const moves = subject !== undefined && movesFrom(subject, record, config()) !== null;
    return [record.engine, ...(moves ? [subject.engine] : [])].map((engine) => ({ ...record, engine }));
  });
  return Map.groupBy(places, ({ engine }) => engine);
}

/** Removes ids from all snapshots and plans, from the engines' files, and from what is kept of people's events. */
export async function forgetUsers(
  place: ForgetParts,
  ids: ErasedIds,
  sources: readonly string[] | null,
  haveReturned: () => Promise<boolean>,
): Promise<void> {
  const failures: unknown[] = [];
  for (const [name, audiences] of await byEngine(place, sources)) {
    const keys = sources && audiences.map(({ key }) => key);
    const forgotten = place.withEngine(name, false, async (engine) => {
      await engine.forget(ids.users, keys);
      await engine.scrub('all');
    });
    await forgotten.catch((cause) => failures.push(cause));
  }
  await forgetKept(place.store, ids, sources, haveReturned).catch((cause) => failures.push(cause));
  // A missing or failing engine must not keep the user in the others.
  if (failures.length > 0) throw failures[0];
}

/** Those of these users whom audiences of these sources know, each with the destinations notified about them. */
export async function toldUsers(
  place: ForgetParts,
  users: readonly string[],
  sources: readonly string[] | null,
): Promise<readonly ToldUser[]> {
  const told: ToldUser[] = [];
  for (const [name, audiences] of await byEngine(place, sources)) {
    const asked = place.withEngine(name, false, async (engine) => {
      for (const { key, source, destinations, lapsed } of audiences) {
        for (const user of (await engine.lookup(key, users)).keys()) {
          for (const destination of new Set([...destinations, ...lapsed])) told.push({ source, destination, user });
        }
      }
    });
    // The attempt log may still name the users of an engine that is out of reach.
    await asked.catch((error) =>
      place.log.warn({ err: error, engine: name }, 'Could not ask an engine for its users; using only the attempt log'),
    );
  }
  return told;
}
