import type { Store } from '../src/store/port.ts';
import { renewKept } from './live/forget.ts';
import type { WithEngine } from './open-engines.ts';
import type { JobLog } from './run/run-context.ts';

/** A user, and a destination that heard of the user from a source. */
export interface ToldUser {
  readonly source: string;
  readonly destination: string;
  readonly user: string;
}

interface ForgetParts {
  readonly store: Pick<Store, 'audiences' | 'live'>;
  readonly withEngine: WithEngine;
  readonly log: JobLog;
}

async function byEngine({ store }: ForgetParts, sources: readonly string[] | null) {
  const audiences = (await store.audiences()).filter(({ source }) => sources?.includes(source) ?? true);
  return Map.groupBy(audiences, ({ engine }) => engine);
}

/** Takes users out of all snapshots and plans, and out of the engines' files. */
export async function forgetUsers(
  place: ForgetParts,
  users: readonly string[],
  sources: readonly string[] | null,
): Promise<void> {
  const failures: unknown[] = [];
  for (const [name, audiences] of await byEngine(place, sources)) {
    const keys = sources && audiences.map(({ key }) => key);
    const forgotten = place.withEngine(name, false, async (engine) => {
      await engine.forget(users, keys);
      await engine.scrub('all');
    });
    await forgotten.catch((cause) => failures.push(cause));
  }
  // The kept state of people's events does not say which source each came from.
  if (sources !== null) await renewKept(place.store).catch((cause) => failures.push(cause));
  // One engine that is gone or down must not keep the user in the others.
  if (failures.length > 0) throw failures[0];
}

/** Users among these whom the audiences of these sources know, and the destinations that heard of them. */
export async function toldUsers(
  place: ForgetParts,
  users: readonly string[],
  sources: readonly string[] | null,
): Promise<readonly ToldUser[]> {
  const told: ToldUser[] = [];
  for (const [name, audiences] of await byEngine(place, sources)) {
    const asked = place.withEngine(name, true, async (engine) => {
      for (const { key, source, destinations, lapsed } of audiences) {
        for (const user of (await engine.lookup(key, users)).keys()) {
          for (const destination of new Set([...destinations, ...lapsed])) told.push({ source, destination, user });
        }
      }
    });
    // Whom an engine that is away knows, the attempt log may still tell.
    await asked.catch((error) =>
      place.log.warn({ err: error, engine: name }, 'An engine could not be asked which users it has told'),
    );
  }
  return told;
}
