import type { Clock } from '../../src/clock.ts';
import { failpoint } from '../../src/failpoint.ts';
import { isEnough } from './asked.ts';
import { build } from './build.ts';
import { readNews } from './news.ts';
import type { LivePlace } from './step.ts';

/**
 * Has everything kept that the definitions ask, and those computed that are new or edited. They are on hold until a run has
 * told what that changes.
 *
 * @param everybody - looks at all persons
 */
export async function prepare(
  place: LivePlace,
  clock: Clock,
  signal: AbortSignal,
  everybody: () => Promise<void>,
): Promise<void> {
  const { store, source, fence, asked, computations, config } = place;
  const known = await store.liveSource(source);
  if (known === null || !(await isKept(place, clock.now()))) {
    for (const key of computations.keys()) await announce(place, key, null);
    await build({ store, clock, folder: config().eventLog?.path ?? '', source, fence, signal }, asked);
  } else if (known.asked !== asked.text) {
    await store.beginLive(source, asked.text, known.position, fence);
    failpoint('live_build');
    await store.endLive(source, known.at, fence);
  }
  const before = new Map((await store.liveAudiences()).map((each) => [each.key, each.definition]));
  const fresh = [...computations.values()].filter(({ computation, hash }) => before.get(computation.key) !== hash);
  if (fresh.length === 0) return;
  for (const { computation } of fresh) {
    if (before.get(computation.key) !== '') await announce(place, computation.key, 'edited');
  }
  await everybody();
  for (const { computation, hash } of fresh) {
    failpoint('live_build');
    await store.addLiveAudience(computation.key, source, hash, null, fence);
  }
}

async function isKept({ store, source, asked }: LivePlace, now: number): Promise<boolean> {
  const known = await store.liveSource(source);
  if (known === null || known.isBuilding || !isEnough(known.asked, asked.text)) return false;
  return (await readNews(store.events, known.position, now)) !== null;
}

/** Says that what is computed of an audience is not to be relied on, until its definition is recorded again. */
async function announce({ store, fence, source }: LivePlace, key: string, hold: string | null): Promise<void> {
  const isKnown = (await store.liveAudiences()).some((each) => each.key === key);
  await store.addLiveAudience(key, source, '', isKnown ? hold : 'new', fence);
  failpoint('live_build');
}
