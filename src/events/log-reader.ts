import type { Clock } from '../kernel/clock.ts';
import { dayOf } from '../kernel/timestamp.ts';
import type { EventLog, SelectedEvent, Selection } from '../store/event-log.ts';
import type { LogFiles } from '../store/events/files.ts';
import { countInFiles, selectFromFiles } from '../store/events/selection.ts';

const DAY = 86_400_000;

export type LogSelection = Omit<Selection, 'day' | 'source'> & { readonly sources: readonly string[] };

/** An event, with its place in the log as a cursor. */
interface PlacedEvent extends Pick<SelectedEvent, 'message'> {
  readonly source: string;
  readonly cursor: string;
}

/** Reads selected events of either kind of log, day by day, one source after the other. */
export class LogReader {
  private readonly log: EventLog;
  private readonly place: LogFiles;
  private readonly clock: Pick<Clock, 'token'>;

  constructor(log: EventLog, place: LogFiles, clock: Pick<Clock, 'token'>) {
    this.log = log;
    this.place = place;
    this.clock = clock;
  }

  /** Count the events of a selection, by their integrations. */
  count({ sources, ...selection }: LogSelection) {
    const { log } = this;
    return log.kind === 'table' ? log.count(selection, sources) : countInFiles(this.files(log), selection, sources);
  }

  /** The next events after a cursor, at most `limit`, all of one day and source; empty at the end. */
  async next({ sources, ...selection }: LogSelection, cursor: string | null, limit: number): Promise<PlacedEvent[]> {
    const { log } = this;
    const [fromDay = '', fromSource = '', place = null] = cursor === null ? [] : (JSON.parse(cursor) as string[]);
    const begin = Math.max(Date.parse(dayOf(selection.since)), (await log.firstDay()) * DAY);
    for (let at = begin; at < selection.until; at += DAY) {
      const day = dayOf(at);
      for (const source of sources.toSorted()) {
        const isSame = day === fromDay && source === fromSource;
        if (day < fromDay || (day === fromDay && source < fromSource)) continue;
        const group = { ...selection, day, source };
        const after = isSame ? place : null;
        const found =
          log.kind === 'table'
            ? await log.select(group, after, limit)
            : await selectFromFiles(this.files(log), group, after, limit);
        if (found.length > 0) {
          return found.map(({ place, message }) => ({ source, message, cursor: JSON.stringify([day, source, place]) }));
        }
      }
    }
    return [];
  }

  private files(log: EventLog & { readonly kind: 'files' }) {
    return { log, place: this.place, token: () => this.clock.token(12) };
  }
}
