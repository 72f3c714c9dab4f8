import type { Clock } from '../../src/clock.ts';
import { failpoint } from '../../src/failpoint.ts';
import type { LoggedRow, OnEvents, Wanted } from '../../src/store/event-log.ts';
import { scanFiles } from '../../src/store/events/scan.ts';
import type { Fence, Store } from '../../src/store/port.ts';
import type { AskedOfAll } from './asked.ts';
import { addLink, type Link, linksIn, personOf, type RawId, rawIdOf, userRaw } from './identity.ts';
import { keep, nothingKept, tidy } from './kept.ts';
import type { Row } from './people.ts';
import { readRow, writeRow, written } from './rows.ts';

interface BuildParts {
  readonly store: Store;
  readonly clock: Clock;
  /** Folder of the log's files. */
  readonly folder: string;
  readonly source: string;
  readonly fence: Fence;
  readonly signal: AbortSignal;
}

const BATCH = 2_000;
const CLEARED = 5_000;

/**
 * Reads the log as a whole and keeps what the definitions ask: for a new definition, and where what was kept is lost or of
 * another version. What is logged meanwhile is read afterwards, from the place where this one ends.
 */
export async function build(parts: BuildParts, asked: AskedOfAll): Promise<void> {
  const { store, source, fence, clock, signal } = parts;
  const startedAt = clock.now();
  const rows = new Filling(parts, asked, startedAt);
  const wanted: Wanted = { events: [...asked.sections.keys()], everything: asked.everybody };
  const begin = async (position: string) => {
    await store.beginLive(source, asked.text, position, fence);
    failpoint('live_build');
    while ((await store.clearLive(source, CLEARED)) > 0) {
      failpoint('live_build');
      signal.throwIfAborted();
    }
  };
  await scan(parts, wanted, startedAt, begin, (events) => rows.take(events));
  await rows.finish();
  await store.endLive(source, rows.newest, fence);
  failpoint('live_build');
}

function scan(
  { store, folder, clock }: BuildParts,
  wanted: Wanted,
  now: number,
  begin: (position: string) => Promise<void>,
  onEvents: OnEvents,
): Promise<void> {
  const { events } = store;
  if (events.kind === 'table') return events.scan(wanted, now, (place) => begin(JSON.stringify(place)), onEvents);
  return scanFiles(
    events,
    folder,
    wanted,
    () => clock.token(12),
    (last) => begin(String(last)),
    onEvents,
  );
}

/** Makes rows of events that come id by id. Whom each belongs to is known once all of them are read. */
class Filling {
  /** Of the latest receipt; no step may be earlier. */
  newest = 0;
  private readonly parts: BuildParts;
  private readonly asked: AskedOfAll;
  private readonly now: number;
  private readonly links = new Map<RawId, Link[]>();
  private current: Row | null = null;
  private full: Row[] = [];

  constructor(parts: BuildParts, asked: AskedOfAll, now: number) {
    this.parts = parts;
    this.asked = asked;
    this.now = now;
  }

  async take(events: readonly LoggedRow[]): Promise<void> {
    this.parts.signal.throwIfAborted();
    for (const event of events) {
      this.newest = Math.max(this.newest, event.receivedAt);
      for (const { raw, link } of linksIn(event)) {
        this.linksOf(userRaw(link[0]));
        addLink(this.linksOf(raw), raw, link);
      }
      const raw = rawIdOf(event);
      if (raw === null) continue;
      if (this.current?.raw !== raw) this.next(raw);
      if (this.current) keep(this.current.kept, event, this.asked);
    }
    if (this.full.length >= BATCH) await this.write(this.full.splice(0));
  }

  private linksOf(raw: RawId): Link[] {
    const known = this.links.get(raw) ?? [];
    this.links.set(raw, known);
    return known;
  }

  private next(raw: RawId): void {
    if (this.current) this.full.push(this.current);
    this.current = { raw, person: null, kept: nothingKept(), links: [], due: null };
  }

  /** Rows of ids that links name are written last, when all links are known. */
  async finish(): Promise<void> {
    if (this.current) this.full.push(this.current);
    await this.write(this.full.splice(0));
    const linked = [...this.links.keys()];
    for (let from = 0; from < linked.length; from += BATCH) await this.link(linked.slice(from, from + BATCH));
  }

  private async write(rows: readonly Row[]): Promise<void> {
    const { store, source, fence, signal } = this.parts;
    signal.throwIfAborted();
    for (const row of rows) {
      row.person = personOf(row.raw, () => []);
      tidy(row.kept, this.asked, this.now);
    }
    const { rows: full } = written(rows);
    if (full.length > 0) await store.fillLive(source, full, fence);
    failpoint('live_build');
  }

  private async link(raws: readonly RawId[]): Promise<void> {
    const { store, source, fence, signal } = this.parts;
    signal.throwIfAborted();
    const known = new Map((await store.liveRows(source, raws)).map((row) => [row.raw, readRow(row)]));
    const linksOf = (raw: RawId) => this.links.get(raw) ?? [];
    const rows = raws.map((raw): Row => {
      const kept = known.get(raw)?.kept ?? nothingKept();
      return { raw, person: personOf(raw, linksOf), due: null, kept, links: [...linksOf(raw)] };
    });
    await store.fillLive(source, rows.map(writeRow), fence);
    failpoint('live_build');
  }
}
