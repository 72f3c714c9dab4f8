import type { EventLog, TablePlace } from '../../src/store/event-log.ts';
import { readable } from '../../src/store/events/readable.ts';
import { type LiveEvent, readEvent } from './event.ts';

/** Whether whoever read up to a position has read all that another one, who was at this place before, had read. */
export function hasReached(log: EventLog, position: string, place: string): boolean {
  const placeIn = (text: string) => (log.kind === 'table' ? (JSON.parse(text) as TablePlace).last : Number(text));
  return placeIn(position) >= placeIn(place);
}

/** Reads the events logged since, and how far they go; null where the log has to be read as a whole. */
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
