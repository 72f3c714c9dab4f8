import type { Sequence } from './definition.ts';

/** A message that may be a step. */
type Done = readonly [at: number, receivedAt: number, messageId: string, ...unknown[]];

/** The verdict on one person at one instant. */
export interface Judged {
  readonly isTrue: boolean;
  /** The time at which this may change without events; null for never. */
  readonly due: number | null;
}

/** A time at which all steps until one can be done, with the messages of that very time that were used. */
interface Reached {
  readonly at: number;
  readonly used: readonly string[];
}

/**
 * Judges a sequence, as the compiled SQL does: step by step, of the step before the latest time that is early enough
 * decides, and messages of one time must differ.
 *
 * @param found - entries of each step
 * @param answers - entries of `not`
 */
export function stepsDone(
  { steps, not }: Sequence,
  found: readonly (readonly Done[])[],
  answers: readonly Done[],
  now: number,
): Judged {
  const { within, until } = steps[0]?.activity ?? { within: null, until: 0 };
  const start = within === null ? Number.NEGATIVE_INFINITY : now - within;
  const enough = withoutMany(found);
  let due: number | null = null;
  const wake = (at: number) => {
    if (at > now && (due === null || at < due)) due = at;
  };
  let reached: readonly Reached[] = [];
  for (const [place, { atLeast, atMost }] of steps.entries()) {
    const own = (enough[place] ?? []).filter(([at]) => at > start).toSorted(([a], [b]) => a - b);
    if (place > 0) reached = following(reached, own, atLeast, atMost ?? Number.POSITIVE_INFINITY);
    else {
      for (const [at] of own) if (until > 0) wake(at + until);
      reached = own.filter(([at]) => until === 0 || at <= now - until).map(([at, , id]) => ({ at, used: [id] }));
      if (within !== null) for (const { at } of reached) wake(at + within);
    }
    if (reached.length === 0) return { isTrue: false, due };
  }
  if (not === null) return { isTrue: true, due };
  const times = answers.map(([at]) => at).toSorted((a, b) => a - b);
  let isTrue = false;
  for (const { at } of reached) {
    const next = times[firstAfter(times, at)];
    if (next !== undefined && next <= at + not.atMost) continue;
    if (now >= at + not.atMost) isTrue = true;
    else wake(at + not.atMost);
  }
  return { isTrue, due };
}

/** @param own - sorted by time, as is `reached` */
function following(
  reached: readonly Reached[],
  own: readonly Done[],
  atLeast: number,
  atMost: number,
): readonly Reached[] {
  const times = reached.map(({ at }) => at);
  const next = new Map<string, Reached>();
  const add = (at: number, used: readonly string[]) => {
    const sorted = used.toSorted();
    next.set(JSON.stringify([at, sorted]), { at, used: sorted });
  };
  for (const [at, , id] of own) {
    const before = times[firstAfter(times, at - Math.max(1, atLeast)) - 1];
    if (before !== undefined && before >= at - atMost) add(at, [id]);
    if (atLeast > 0) continue;
    for (let place = firstAfter(times, at - 1); times[place] === at; place += 1) {
      const used = reached[place]?.used ?? [];
      if (!used.includes(id)) add(at, [...used, id]);
    }
  }
  return [...next.values()];
}

/** The place of the first time after one, in sorted times. */
function firstAfter(times: readonly number[], at: number): number {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle] ?? 0) <= at) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Keeps at most as many messages of one time and the same steps as there are steps. */
function withoutMany(found: readonly (readonly Done[])[]): readonly (readonly Done[])[] {
  const stepsOf = new Map<string, string>();
  for (const [place, own] of found.entries())
    for (const [, , id] of own) stepsOf.set(id, `${stepsOf.get(id) ?? ''} ${place}`);
  return found.map((own) => {
    const counts = new Map<string, number>();
    return own.filter(([at, , id]) => {
      const alike = `${at}${stepsOf.get(id)}`;
      const count = (counts.get(alike) ?? 0) + 1;
      counts.set(alike, count);
      return count <= found.length;
    });
  });
}
