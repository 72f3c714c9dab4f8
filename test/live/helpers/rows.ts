import { dayNumber, type LiveEvent } from '../../../jobs/live/event.ts';
import type { AskedOfAll } from '../../../jobs/live/facts.ts';
import { idOf, isUser } from '../../../jobs/live/identity.ts';
import { readKept, writeKept } from '../../../jobs/live/kept.ts';
import { oldestDay } from '../../../jobs/live/kept-facts.ts';
import { type IdRow, type IdRows, type Standings, step } from '../../../jobs/live/people.ts';
import { written } from '../../../jobs/live/state-rows.ts';
import type { SyncedValue } from '../../../jobs/live/synced-audiences.ts';

/** Rows as a store would keep them: as text, and found by nothing but what a store has indexes for. */
export class RowsInMemory implements IdRows {
  private readonly rows = new Map<string, string>();

  async around(raws: readonly string[], isLean: boolean): Promise<readonly IdRow[]> {
    const own = raws.flatMap((raw) => readRow(this.rows.get(raw)));
    const users = raws.flatMap((raw) => (isUser(raw) ? idOf(raw) : []));
    const persons = new Set([...users, ...own.flatMap(({ person }) => person ?? [])]);
    const theirs = (await this.ofPersons([...persons])).filter(({ raw }) => !raws.includes(raw));
    return [...own, ...theirs.filter(({ raw, kept }) => !isLean || isUser(raw) || writeKept(kept) !== '{}')];
  }

  async ofPersons(persons: readonly string[]): Promise<readonly IdRow[]> {
    return this.all().filter(({ person }) => person !== null && persons.includes(person));
  }

  /** As a step writes them: of those of which nothing is left, no row stays. */
  write(rows: readonly IdRow[]): void {
    const gone = new Set(written(rows).gone);
    for (const raw of gone) this.rows.delete(raw);
    for (const { kept, before, ...row } of rows)
      if (!gone.has(row.raw)) this.rows.set(row.raw, JSON.stringify({ ...row, kept: writeKept(kept) }));
  }

  old(first: number): string[] {
    return this.all().flatMap(({ raw, kept, links }) => {
      const days = [oldestDay(kept), ...links.map(([, , at]) => dayNumber(at))];
      return days.some((day) => day !== null && day < first) ? raw : [];
    });
  }

  due(now: number): string[] {
    return this.all().flatMap(({ due, person }) => (due !== null && due <= now && person !== null ? person : []));
  }

  /** Characters of all that is kept. */
  get size(): number {
    return this.all().reduce((sum, { kept }) => sum + writeKept(kept).length, 0);
  }

  private all(): readonly IdRow[] {
    return [...this.rows.values()].flatMap(readRow);
  }
}

function readRow(text: string | undefined): IdRow[] {
  if (text === undefined) return [];
  const row = JSON.parse(text);
  return [{ ...row, kept: readKept(row.kept), before: { person: row.person, due: row.due, oldest: null } }];
}

/** Live membership that is computed step by step, in memory. */
export class LiveModel {
  /** By key and person; of an audience true, or the columns. */
  readonly members = new Map<string, Map<string, unknown>>();
  private readonly rows = new RowsInMemory();
  private readonly asked: AskedOfAll;

  constructor(asked: AskedOfAll) {
    this.asked = asked;
  }

  get size(): number {
    return this.rows.size;
  }

  /** Resolves to what was looked at. @param first - the first day of the log */
  async advance(
    events: readonly LiveEvent[],
    now: number,
    first = 0,
    memberships: readonly SyncedValue[] = [],
  ): Promise<readonly Standings[]> {
    const news = { events, memberships, due: this.rows.due(now), old: this.rows.old(first), now, first };
    const { rows, standings } = await step(this.asked, this.rows, news);
    this.rows.write(rows);
    for (const { person, values } of standings) {
      for (const { key } of this.asked.definitions) this.set(key, person, values.get(key));
    }
    return standings;
  }

  private set(key: string, person: string, value: unknown): void {
    const members = this.members.get(key) ?? new Map<string, unknown>();
    this.members.set(key, members);
    if (value === undefined) members.delete(person);
    else members.set(person, value);
  }
}
