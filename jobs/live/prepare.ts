import type { Clock } from '../../src/clock.ts';
import { failpoint } from '../../src/failpoint.ts';
import type { Log } from '../context.ts';
import { isEnough } from './asked.ts';
import { build } from './build.ts';
import { readNews } from './news.ts';
import type { LivePlace } from './step.ts';

interface PrepareParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Looks at all persons of whom anything is kept. */
  readonly everybody: () => Promise<void>;
  /** Looks at members of whom nothing is kept. */
  readonly strays: () => Promise<void>;
}

/**
 * Has everything kept that the definitions ask, and those computed that are new or edited. They are on hold until a run has
 * sent what that changes.
 */
export async function prepare(
  place: LivePlace,
  { clock, log, signal, everybody, strays }: PrepareParts,
): Promise<void> {
  const { store, source, fence, asked, computations, config } = place;
  const known = await store.liveSource(source);
  const isBuilt = known !== null && (await isKept(place, clock.now()));
  if (!isBuilt) {
    const keys = [...computations.keys()];
    const edited = await unlike(place);
    for (const key of keys) await announce(place, key, edited.includes(key) ? 'edited' : null);
    const folder = config().eventLog?.path ?? '';
    await build({ store, clock, log, folder, source, keys, fence, signal }, asked);
  } else if (known.asked !== asked.text) {
    await store.beginLive(source, asked.text, known.position, fence);
    failpoint('live_build');
    await store.endLive(source, known.at, fence);
  }
  const fresh = await unlike(place);
  if (fresh.length === 0) return;
  if (isBuilt) {
    for (const key of fresh) await announce(place, key, 'edited');
    await everybody();
  }
  await strays();
  for (const key of fresh) {
    failpoint('live_build');
    await store.addLiveAudience(key, source, computations.get(key)?.hash ?? '', null, fence);
  }
}

/** Keys of those that are not computed by the definition that they have now. */
async function unlike({ store, computations }: LivePlace): Promise<readonly string[]> {
  const before = new Map((await store.liveAudiences()).map((each) => [each.key, each.definition]));
  return [...computations].flatMap(([key, { hash }]) => (before.get(key) === hash ? [] : key));
}

async function isKept({ store, source, asked }: LivePlace, now: number): Promise<boolean> {
  const known = await store.liveSource(source);
  if (known === null || known.isBuilding || !isEnough(known.asked, asked.text)) return false;
  return (await readNews(store.events, known.position, now)) !== null;
}

/** Says that what is computed of an audience is not to be relied on, until its definition is recorded again. */
async function announce({ store, fence, source }: LivePlace, key: string, hold: string | null): Promise<void> {
  const known = (await store.liveAudiences()).find((each) => each.key === key);
  // An audience that was announced before keeps its hold, if it has one.
  const reason = known === undefined ? 'new' : known.definition === '' ? null : hold;
  await store.addLiveAudience(key, source, '', reason, fence);
  failpoint('live_build');
}
