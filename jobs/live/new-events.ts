import type { EventLog, TablePlace } from '../../src/store/event-log.ts';
import { readable } from '../../src/store/events/readable.ts';
import { type LiveEvent, readEvent } from './event.ts';

/** True if a reader at `position` has read everything that another one at `place` had. */
export function hasReached(log: EventLog, position: string, place: string): boolean {
  const placeIn = (text: string) => (log.kind === 'table' ? (JSON.parse(text) as TablePlace).last : Number(text));
  return placeIn(position) >= placeIn(place);
}

/** Reads the events logged since a position, and the new position; null if the whole log must be read again. */
export async function readNews(
  log: EventLog,
  position: string,
  now: number,
): Promise<{ readonly events: readonly LiveEvent[]; readonly position: string } | null> {
  if (log.kind === 'table') {
    const before = JSON.parse(position) as TablePlace;
    const { events, place } = await log.since(before, now);
    return { events, position: JSON.stringify(place) };
  }
  const after = Number(position);
  const { parts, lost } = await log.unread(after);
  if (lost > after) return null;
  const events = parts.flatMap(({ bodies }) => readable(bodies).split('\n').map(readEvent));
  return { events, position: String(parts.at(-1)?.id ?? after) };
}
