import type { RunPlace } from '../run/run-context.ts';
import { unfinishedRuns } from '../run/unfinished-runs.ts';
import { LIVE_ENGINE } from './definitions.ts';
import { REJECTED } from './upkeep.ts';

/**
 * Does a run's work while the live audience is on hold, so that it sends nothing at the same time. It stays on hold while
 * a person has to decide, and after a run that sent only to destinations that were behind.
 */
export async function whileHeld(
  place: RunPlace,
  { isForSome = false, isDecided = false }: { readonly isForSome?: boolean; readonly isDecided?: boolean },
  work: () => Promise<void>,
): Promise<void> {
  const { store, clock, subject } = place;
  if (subject.engine !== LIVE_ENGINE) return work();
  const before = await holdOf(place);
  if (before === null) await store.live.holdAudience(subject.key, 'run', null);
  await work();
  if (isForSome && before !== null) return;
  const isRejected = (await holdOf(place)) === REJECTED && before !== REJECTED;
  if (isRejected || (await unfinishedRuns(place)).length > 0) return;
  // Only a person's decision excuses what was counted so far.
  await store.live.holdAudience(subject.key, null, isDecided ? clock.now() : null);
}

/** Holds back a rejected change until a person decides otherwise. */
export async function holdRejected({ store, subject }: RunPlace): Promise<void> {
  if (subject.engine === LIVE_ENGINE) await store.live.holdAudience(subject.key, REJECTED, null);
}

async function holdOf({ store, subject }: RunPlace): Promise<string | null> {
  return (await store.live.audiences()).find(({ key }) => key === subject.key)?.hold ?? null;
}
