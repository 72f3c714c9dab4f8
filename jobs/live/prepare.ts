import { failpoint } from '../../src/kernel/failpoint.ts';
import { filesOf } from '../../src/store/events/open-files.ts';
import { build } from './build.ts';
import type { LiveComputation } from './definitions.ts';
import { type AskedOfAll, askedOf, isEnough } from './facts.ts';
import { type Computing, Loop, type LoopParts } from './loop.ts';
import { readNews } from './new-events.ts';
import { type Stateless, Successor } from './successor.ts';
import { Sweep } from './sweep.ts';

/**
 * Finds the definitions that can be computed from kept state. The others need more facts, or everybody evaluated again:
 * they are on hold until a run has sent the resulting changes. A stale state serves until everything is rebuilt.
 */
export async function prepare(parts: LoopParts, whole: Stateless, keep: number): Promise<Computing> {
  const { store, clock } = parts;
  const { source, fence, asked, computations } = whole;
  const edited = new Set(await unlike(whole));
  const known = await store.live.currentState(source);
  const isKept =
    known !== null && !known.isBuilding && (await readNews(store.events, known.position, clock.now())) !== null;
  if (isKept && !known.isStale && isEnough(known.asked, asked.text)) {
    for (const key of edited) await announce(whole, key, 'edited');
    if (known.asked !== asked.text) await store.live.setAsked(known.state, asked.text, [...asked.audiences], fence);
    const place = { ...whole, state: known.state, silent: edited, isStale: false };
    const all = known.isUnseen ? [...computations.keys()] : edited;
    const isSeen = edited.size === 0 && !known.isUnseen;
    return { loop: new Loop(parts, place), background: isSeen ? null : new Sweep(place, edited, 'everybody', all) };
  }
  const hasAll = ([key, { definition }]: readonly [string, LiveComputation]) =>
    isKept && !edited.has(key) && isEnough(known.asked, askedOf([definition], keep).text);
  const running = new Map([...computations].filter(hasAll));
  const others = new Set([...computations.keys()].filter((key) => !running.has(key)));
  for (const key of others) await announce(whole, key, edited.has(key) ? 'edited' : null);
  if (isKept && running.size > 0) {
    const ofRunning = askedOfThese(running, keep);
    await store.live.setAsked(known.state, ofRunning.text, [...ofRunning.audiences], fence);
    const { state, isStale } = known;
    const place = { ...whole, asked: ofRunning, computations: running, state, isStale, silent: new Set<string>() };
    return { loop: new Loop(parts, place), background: new Successor(parts, whole, others, isStale) };
  }
  const { log, signal } = parts;
  const files = filesOf(whole.config().eventLog ?? null);
  const theirs = new Map([...computations].filter(([key]) => others.has(key)));
  const built = { store, clock, log, files, source, computations: theirs, background: false, fence, signal };
  const place = { ...whole, state: await build(built, asked), silent: others, isStale: false };
  return { loop: new Loop(parts, place), background: new Sweep(place, others, 'strays') };
}

const askedOfThese = (computations: ReadonlyMap<string, LiveComputation>, keep: number): AskedOfAll =>
  askedOf(
    [...computations.values()].map(({ definition }) => definition),
    keep,
  );

/** Keys of audiences and traits whose definition has changed since it was recorded. */
async function unlike({ store, computations }: Stateless): Promise<readonly string[]> {
  const before = new Map((await store.live.audiences()).map((each) => [each.key, each.definition]));
  return [...computations].flatMap(([key, { hash }]) => (before.get(key) === hash ? [] : key));
}

/** Marks an audience's computed members as unreliable until its definition is recorded again. */
async function announce({ store, fence, source }: Stateless, key: string, hold: string | null): Promise<void> {
  const known = (await store.live.audiences()).find((each) => each.key === key);
  // An audience that was announced before keeps its hold, if it has one.
  const reason = known === undefined ? 'new' : known.definition === '' ? null : hold;
  await store.live.addAudience(key, source, '', reason, fence);
  failpoint('live_build');
}
