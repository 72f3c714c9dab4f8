import { dayNumber, passesFilters, placeIn, type Said, whenOf } from './event.ts';
import { type AskedOfAll, sectionsFor } from './facts.ts';
import { addToFront, byLikelyTime, compareDated, type Dated, type KeptFacts, type Section } from './kept.ts';
import type { SyncedValue } from './synced-audiences.ts';

/** Sections and traits that an event added to, or the audience or computed value of which somebody has another one. */
export interface AddedFacts {
  readonly sections: ReadonlySet<string>;
  readonly traits: ReadonlySet<string>;
  readonly audience: string | null;
  /** True if anything was kept. */
  readonly any: boolean;
}

const NOTHING: ReadonlySet<string> = new Set();

/** Keeps the facts of an event that the definitions ask for. */
export function keep(kept: KeptFacts, event: Said, asked: AskedOfAll): AddedFacts {
  const sections = keepActivity(kept, event, asked);
  const traits = event.type === 'identify' ? keepTraits(kept, event, asked) : NOTHING;
  const day = dayNumber(event.receivedAt);
  const isNews = asked.everybody && day > kept.seen;
  if (isNews) kept.seen = day;
  return { sections, traits, audience: null, any: isNews || sections.size > 0 || traits.size > 0 };
}

/** Keeps that a user entered or left an audience, or has another computed value. */
export function keepMembership(kept: KeptFacts, { name, value }: SyncedValue): AddedFacts {
  const any = JSON.stringify(kept.in[name]) !== JSON.stringify(value);
  if (value === undefined) delete kept.in[name];
  else kept.in[name] = value;
  return { sections: NOTHING, traits: NOTHING, audience: name, any };
}

function keepActivity(kept: KeptFacts, event: Said, asked: AskedOfAll): ReadonlySet<string> {
  const sections = sectionsFor(asked, event);
  if (sections.length === 0) return NOTHING;
  const added = new Set<string>();
  for (const section of sections) {
    const { since } = section.activity;
    if ((since !== null && event.timestamp < since) || !passesFilters(event, section.fixed)) continue;
    if (keepIn(kept, section, event)) added.add(section.id);
  }
  return added;
}

function keepIn(kept: KeptFacts, { id, keeps, of, moving, keep }: Section, event: Said): boolean {
  if (keeps === 'days') {
    const day = String(dayNumber(event.receivedAt));
    kept.days[id] ??= {};
    const days = kept.days[id];
    days[day] = (days[day] ?? 0) + 1;
    return true;
  }
  if (keeps === 'times') {
    kept.times[id] ??= [];
    kept.times[id].push(event.timestamp);
    return true;
  }
  // Without a place, only the occurrence counts.
  const value = of === null ? true : placeIn(event, of);
  if (!isScalar(value)) return false;
  const inputs = moving.length === 0 ? [] : [moving.map((filter) => placeIn(event, filter) ?? null)];
  const dated = [...whenOf(event), value, ...inputs] as unknown as Dated;
  kept.values[id] ??= [];
  const list = kept.values[id];
  if (keeps === 'first' && moving.length === 0) return addToFront(list, dated, isEarlierAndStays(keep));
  list.push(dated);
  return true;
}

/** True if one was earlier and the log forgets it no earlier. */
function isEarlierAndStays(keep: number): (one: Dated, other: Dated) => boolean {
  const order = byLikelyTime(keep);
  return (one, other) => dayNumber(one[1]) >= dayNumber(other[1]) && order(one, other) <= 0;
}

const isScalar = (value: unknown) => ['string', 'number', 'boolean'].includes(typeof value);

/** Each `identify` sets the traits that it has and leaves the others alone. */
function keepTraits({ traits }: KeptFacts, event: Said, asked: AskedOfAll): ReadonlySet<string> {
  const said = event.traits;
  if (typeof said !== 'object' || said === null) return NOTHING;
  const added = new Set<string>();
  for (const trait of asked.traits) {
    if (!Object.hasOwn(said, trait)) continue;
    const dated: Dated = [...whenOf(event), (said as Record<string, unknown>)[trait]];
    traits[trait] ??= [];
    if (addToFront(traits[trait], dated, isLaterAndStays)) added.add(trait);
  }
  return added;
}

const isLaterAndStays = (one: Dated, other: Dated) =>
  dayNumber(one[1]) >= dayNumber(other[1]) && compareDated(one, other) >= 0;

/**
 * Drops events that have left their window (for good, as time does not go back), times beyond the newest that are asked
 * for, and facts that no definition asks for any more.
 */
export function tidy(kept: KeptFacts, asked: AskedOfAll, now: number): void {
  const known = asked.sectionById;
  for (const id of Object.keys(kept.days)) if (!known.has(id)) delete kept.days[id];
  for (const part of [kept.times, kept.values]) {
    for (const [id, list] of Object.entries(part)) {
      const { within = null } = known.get(id)?.activity ?? {};
      const start = within === null ? Number.NEGATIVE_INFINITY : now - within;
      const left = (list as (number | Dated)[]).filter((each) => (typeof each === 'number' ? each : each[0]) > start);
      if (!known.has(id) || left.length === 0) delete part[id];
      else if (left.length < list.length) (part as Record<string, unknown>)[id] = left;
    }
  }
  for (const [id, times] of Object.entries(kept.times)) {
    const newest = asked.newest.get(id) ?? Number.POSITIVE_INFINITY;
    if (times.length > newest) kept.times[id] = times.toSorted((a, b) => b - a).slice(0, newest);
  }
  for (const trait of Object.keys(kept.traits)) if (!asked.traits.has(trait)) delete kept.traits[trait];
  for (const name of Object.keys(kept.in)) if (!asked.audiences.has(name)) delete kept.in[name];
}

/** The first day of receipt of kept events. Null if it makes no difference when the log forgets them. */
export function oldestDay({ days, values, traits, seen }: KeptFacts): number | null {
  let oldest = seen > 0 ? seen : Number.POSITIVE_INFINITY;
  for (const counts of Object.values(days))
    for (const day of Object.keys(counts)) oldest = Math.min(oldest, Number(day));
  for (const dated of [...Object.values(values), ...Object.values(traits)])
    for (const [, receivedAt] of dated) oldest = Math.min(oldest, dayNumber(receivedAt));
  return Number.isFinite(oldest) ? oldest : null;
}

/**
 * Forgets events received before the first day of the log; false if there are none. Leaves `times` alone, whose windows
 * are shorter than the log.
 */
export function forgetDays(kept: KeptFacts, first: number): boolean {
  if ((oldestDay(kept) ?? first) >= first) return false;
  if (kept.seen < first) kept.seen = 0;
  for (const [id, counts] of Object.entries(kept.days)) {
    for (const day of Object.keys(counts)) if (Number(day) < first) delete counts[day];
    if (Object.keys(counts).length === 0) delete kept.days[id];
  }
  for (const part of [kept.values, kept.traits]) {
    for (const [id, dated] of Object.entries(part)) {
      part[id] = dated.filter(([, receivedAt]) => dayNumber(receivedAt) >= first);
      if (part[id].length === 0) delete part[id];
    }
  }
  return true;
}
