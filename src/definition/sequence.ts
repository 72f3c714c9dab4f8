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
  readonly done: Done;
  readonly before: Reached | null;
}

/**
 * Judges a sequence, as the compiled SQL does: step by step, of the step before the latest time that is early enough
 * decides, and messages of one time must differ.
 *
 * @param found - entries of each step
 * @param answers - entries of `not`
 */
export function stepsDone(
  sequence: Sequence,
  found: readonly (readonly Done[])[],
  answers: readonly Done[],
  now: number,
): Judged {
  const { steps, not } = sequence;
  const { reached, step, due: opens } = walk(sequence, found, now);
  if (step < steps.length || not === null) return { isTrue: step === steps.length, due: opens };
  const times = answers.map(([at]) => at).toSorted((a, b) => a - b);
  let due = opens;
  let isTrue = false;
  for (const { at } of reached) {
    const next = times[firstAfter(times, at)];
    if (next !== undefined && next <= at + not.atMost) continue;
    if (now >= at + not.atMost) isTrue = true;
    else if (due === null || at + not.atMost < due) due = at + not.atMost;
  }
  return { isTrue, due };
}

/** The messages of one choice that made the steps, as far as they go. Of several the latest, but one that fits first. */
export function stepsTaken<Message extends Done>(
  sequence: Sequence,
  found: readonly (readonly Message[])[],
  answers: readonly Message[],
  now: number,
): { readonly taken: readonly Message[]; readonly answer: Message | null; readonly until: number | null } {
  const { not, steps } = sequence;
  const { reached, step } = walk(sequence, found, now);
  const all = reached.map((last) => {
    const answered = answers
      .filter(([at]) => not !== null && at > last.at && at <= last.at + not.atMost)
      .toSorted(([a], [b]) => a - b);
    return { last, answer: answered[0] ?? null, until: last.at + (not?.atMost ?? 0) };
  });
  const chosen =
    all.findLast(({ answer, until }) => answer === null && until <= now) ??
    all.findLast(({ answer }) => answer === null) ??
    all.at(-1);
  const taken: Message[] = [];
  for (let each = chosen?.last ?? null; each !== null; each = each.before) taken.unshift(each.done as Message);
  const isComplete = step === steps.length && not !== null && chosen !== undefined;
  return { taken, answer: isComplete ? chosen.answer : null, until: isComplete ? chosen.until : null };
}

/** The times at which the last step that can be done is, its number from 1, and when others begin or end to count. */
function walk(
  { steps }: Sequence,
  found: readonly (readonly Done[])[],
  now: number,
): { readonly reached: readonly Reached[]; readonly step: number; readonly due: number | null } {
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
    if (place === 0) {
      for (const [at] of own) if (until > 0) wake(at + until);
      const counted = own.filter(([at]) => until === 0 || at <= now - until);
      reached = counted.map((done) => ({ at: done[0], used: [done[2]], done, before: null }));
      if (within !== null) for (const { at } of reached) wake(at + within);
      if (reached.length === 0) return { reached, step: 0, due };
      continue;
    }
    const next = following(reached, own, atLeast, atMost ?? Number.POSITIVE_INFINITY);
    if (next.length === 0) return { reached, step: place, due };
    reached = next;
  }
  return { reached, step: steps.length, due };
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
  const add = (done: Done, used: readonly string[], before: Reached) => {
    const sorted = used.toSorted();
    next.set(JSON.stringify([done[0], sorted]), { at: done[0], used: sorted, done, before });
  };
  for (const done of own) {
    const [at, , id] = done;
    const before = reached[firstAfter(times, at - Math.max(1, atLeast)) - 1];
    if (before !== undefined && before.at >= at - atMost) add(done, [id], before);
    if (atLeast > 0) continue;
    for (let place = firstAfter(times, at - 1); times[place] === at; place += 1) {
      const same = reached[place];
      if (same && !same.used.includes(id)) add(done, [...same.used, id], same);
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
