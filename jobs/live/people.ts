import { standingOf } from './evaluate.ts';
import { dayNumber, type LiveEvent } from './event.ts';
import { type AskedFacts, type AskedOfAll, asksFor, hasColumnIn, sectionsFor } from './facts.ts';
import { FORGOTTEN } from './forget.ts';
import { addLink, idOf, isUser, type Link, linksIn, personOf, type RawId, rawIdOf, userRaw } from './identity.ts';
import { type KeptFacts, nothingKept } from './kept.ts';
import { type AddedFacts, forgetDays, keep, keepMembership, tidy } from './kept-facts.ts';
import type { SyncedValue } from './synced-audiences.ts';

/** Everything kept of one id. */
export interface IdRow {
  readonly raw: RawId;
  /** The user to whom it belongs; null for nobody. */
  person: string | null;
  readonly kept: KeptFacts;
  readonly links: Link[];
  /** The time at which a value of this person may change without events. */
  due: number | null;
  /** The row in the store; null for none. */
  readonly before: {
    readonly person: string | null;
    readonly due: number | null;
    readonly oldest: number | null;
  } | null;
}

/** The rows between two steps. */
export interface IdRows {
  /**
   * Rows of these ids, and of all persons to whom they belong. Without a row, a user id belongs to itself.
   *
   * @param isLean - omits other anonymous ids that have links only
   */
  around(raws: readonly RawId[], isLean: boolean): Promise<readonly IdRow[]>;
  /** All rows of these persons. */
  ofPersons(persons: readonly string[]): Promise<readonly IdRow[]>;
}

/** A person's current values, by the definitions that may have changed. */
export interface Standings {
  readonly person: string;
  /** Values by key. A missing key means that the person is not in it. Former ids have none. */
  readonly values: ReadonlyMap<string, unknown>;
  /** The cause of a change, or of one of columns alone; null for none, as when everybody is computed again. */
  readonly cause: (key: string, ofColumns?: boolean) => EvaluationCause | null;
}

/** A reason to evaluate a definition: an event, a membership of an SQL audience, a deletion, or time (ISO 8601). */
export type EvaluationCause = LiveEvent | SyncedValue | { readonly deletion: true } | { readonly time: string };

interface Step {
  /** Rows to write. */
  readonly rows: readonly IdRow[];
  readonly standings: readonly OwnStandings[];
}

/** With the person's own row, which has the due time. */
interface OwnStandings extends Standings {
  readonly own: IdRow;
}

/** The input of a step. */
export interface News {
  readonly events: readonly LiveEvent[];
  /** Persons who are due. */
  readonly due: readonly string[];
  /** Changed memberships of SQL audiences. */
  readonly memberships: readonly SyncedValue[];
  /** Ids with events received before the first day of the log. */
  readonly old: readonly RawId[];
  /** Never earlier than the previous step, nor than the receipt of any event. */
  readonly now: number;
  /** First day of the log, counted from 1970. Events received before are forgotten. */
  readonly first: number;
}

/** Computes the changes due to events, time and forgotten days for all definitions. Evaluates only people affected. */
export async function step(asked: AskedOfAll, rows: IdRows, news: News): Promise<Step> {
  const events = news.events.filter(({ receivedAt }) => dayNumber(receivedAt) >= news.first);
  const working = new Working(asked, rows, news.first);
  await working.load({ ...news, events });
  for (const event of events) working.apply(event);
  for (const membership of news.memberships) working.join(membership);
  working.settlePersons();
  return working.judge(news.due, news.now);
}

class Working {
  private readonly asked: AskedOfAll;
  private readonly source: IdRows;
  private readonly rows = new Map<RawId, IdRow>();
  /** Ids of which all rows of their persons are read. */
  private readonly whole = new Set<RawId>();
  private readonly changed = new Set<IdRow>();
  /** Rows with their additions and the causes. */
  private readonly added: { readonly row: IdRow; readonly by: LiveEvent | SyncedValue; readonly added: AddedFacts }[] =
    [];
  /** Events that added a link, with the row it was added to. */
  private readonly linking: { readonly row: IdRow; readonly event: LiveEvent }[] = [];
  /** Persons to evaluate regardless of additions, because their ids changed or some facts were forgotten. */
  private readonly moved = new Map<string, LiveEvent | null>();
  private readonly first: number;
  /** True once links were forgotten. */
  private unlinked = false;

  constructor(asked: AskedOfAll, source: IdRows, first: number) {
    this.asked = asked;
    this.source = source;
    this.first = first;
  }

  async load({ events, memberships, due, old }: News): Promise<void> {
    // A person may be a former id by now, whose row belongs to another person.
    const raws = new Set<RawId>([...old, ...due.map(userRaw)]);
    const lean = new Set<RawId>(memberships.map(({ user }) => userRaw(user)));
    for (const event of events) {
      const own = this.concerns(event) ? rawIdOf(event) : null;
      if (own !== null) lean.add(own);
      for (const { raw, link } of linksIn(event, this.asked.keep)) raws.add(raw).add(userRaw(link[0]));
    }
    let fresh = await this.fetch(raws, due, lean);
    for (const id of old) {
      const row = this.rows.get(id);
      if (row) this.changed.add(row);
    }
    // Another link may now decide to whom an id belongs, so read all ids of its person and of its user.
    for (let next = this.forget(fresh); ; next = this.forget(fresh)) {
      const unknown = new Set([...next].filter((raw) => !this.whole.has(raw)));
      if (unknown.size === 0) return;
      fresh = await this.fetch(unknown, []);
    }
  }

  /**
   * Reads these rows, and all rows of the persons to whom they belong. Resolves to those not read before.
   *
   * @param lean - ids whose links do not change. Rows of their persons that have links only are not needed.
   */
  private async fetch(
    raws: ReadonlySet<RawId>,
    due: readonly string[],
    lean: ReadonlySet<RawId> = new Set(),
  ): Promise<readonly IdRow[]> {
    const [around, ofDue, leanly] = await Promise.all([
      this.source.around([...raws], false),
      this.source.ofPersons(due),
      this.source.around(
        [...lean].filter((raw) => !raws.has(raw)),
        true,
      ),
    ]);
    for (const { person } of [...around, ...ofDue]) if (person !== null) this.whole.add(userRaw(person));
    for (const raw of raws) this.whole.add(raw);
    return [...this.take(around), ...this.take(ofDue), ...this.take(leanly)];
  }

  /** Forgets what the log has forgotten. Returns the users to whom these ids belonged, and to whom they may belong now. */
  private forget(rows: readonly IdRow[]): ReadonlySet<RawId> {
    const users = new Set<RawId>();
    for (const row of rows) {
      const links = row.links.filter(([, , at]) => dayNumber(at) >= this.first);
      const isLinkedOld = links.length < row.links.length;
      if (!forgetDays(row.kept, this.first) && !isLinkedOld) continue;
      this.changed.add(row);
      if (row.person !== null) this.moved.set(row.person, null);
      if (!isLinkedOld) continue;
      this.unlinked = true;
      row.links.splice(0, row.links.length, ...links);
      for (const user of [row.person ?? [], links.map(([user]) => user)].flat()) users.add(userRaw(user));
    }
    return users;
  }

  private concerns(event: LiveEvent): boolean {
    if (this.asked.everybody) return true;
    if (event.type === 'identify') return this.asked.traits.size > 0;
    return sectionsFor(this.asked, event).length > 0;
  }

  private take(rows: readonly IdRow[]): readonly IdRow[] {
    const fresh = rows.filter(({ raw }) => !this.rows.has(raw));
    for (const row of fresh) this.rows.set(row.raw, row);
    return fresh;
  }

  private row(raw: RawId): IdRow {
    const known = this.rows.get(raw);
    if (known) return known;
    const person = isUser(raw) ? idOf(raw) : null;
    const made: IdRow = { raw, person, kept: nothingKept(), links: [], due: null, before: null };
    this.rows.set(raw, made);
    return made;
  }

  apply(event: LiveEvent): void {
    const raw = this.concerns(event) ? rawIdOf(event) : null;
    if (raw !== null) {
      const row = this.row(raw);
      const added = keep(row.kept, event, this.asked);
      if (added.any) {
        this.changed.add(row);
        this.added.push({ row, by: event, added });
      }
    }
    for (const { raw, link } of linksIn(event, this.asked.keep)) {
      const row = this.row(raw);
      this.changed.add(this.row(userRaw(link[0])));
      if (!addLink(row.links, raw, link)) continue;
      this.changed.add(row);
      this.linking.push({ row, event });
    }
  }

  join(membership: SyncedValue): void {
    const row = this.row(userRaw(membership.user));
    const added = keepMembership(row.kept, membership);
    if (!added.any) return;
    this.changed.add(row);
    this.added.push({ row, by: membership, added });
  }

  /** Determines again to whom each id belongs. Rows of all persons that may have changed are loaded. */
  settlePersons(): void {
    const last = this.linking.at(-1)?.event ?? null;
    if (last === null && !this.unlinked) return;
    const linksOf = (raw: RawId) => this.rows.get(raw)?.links ?? [];
    for (const row of this.rows.values()) {
      const person = personOf(row.raw, linksOf);
      if (person === row.person) continue;
      const cause = this.linking.findLast((each) => each.row === row)?.event ?? last;
      if (row.person !== null) this.moved.set(row.person, cause);
      if (person !== null) this.moved.set(person, cause);
      row.person = person;
      this.changed.add(row);
    }
  }

  judge(due: readonly string[], now: number): Step {
    const touched = new Set([...due, ...this.moved.keys()]);
    for (const { row } of this.added) if (row.person !== null) touched.add(row.person);
    const byPerson = Map.groupBy(this.rows.values(), ({ person }) => person);
    const causes = Map.groupBy(this.added, ({ row }) => row.person);
    const standings: OwnStandings[] = [];
    for (const person of touched) {
      const own = this.row(userRaw(person));
      const rows = own.person === person ? (byPerson.get(person) ?? []) : [];
      const { due: next, ...standing } = this.standings(person, rows, causes.get(person) ?? [], now);
      standings.push({ ...standing, own });
      if (own.due === next) continue;
      own.due = next;
      this.changed.add(own);
    }
    for (const { kept } of this.changed) tidy(kept, this.asked, now);
    return { rows: [...this.changed], standings };
  }

  /** The cause of changes for which nothing was added. */
  private passing(person: string, now: number): EvaluationCause | null {
    const due = this.rows.get(userRaw(person))?.due ?? null;
    if (due === FORGOTTEN) return { deletion: true };
    const isForgotten = this.moved.has(person);
    return isForgotten || (due !== null && due <= now) ? { time: new Date(now).toISOString() } : null;
  }

  private standings(
    person: string,
    rows: readonly IdRow[],
    added: readonly { readonly by: EvaluationCause; readonly added: AddedFacts }[],
    now: number,
  ): Standings & { readonly due: number | null } {
    const standing = standingOf(
      this.asked,
      person,
      rows.map((row) => row.kept),
      now,
    );
    const mover = this.moved.get(person) ?? null;
    const passing = this.passing(person, now);
    const cause = (key: string, ofColumns = false) =>
      mover ?? causeOf(this.asked.byKey.get(key), added, ofColumns) ?? passing;
    return { person, ...standing, cause };
  }
}

/** The last cause that added a fact the definition asks for. If it holds for everybody, any event will do. */
function causeOf(
  definition: AskedFacts | undefined,
  added: readonly { readonly by: EvaluationCause; readonly added: AddedFacts }[],
  ofColumns: boolean,
): EvaluationCause | null {
  if (!definition) return null;
  if (ofColumns) return added.findLast(({ added }) => hasColumnIn(definition, added))?.by ?? null;
  const asking = added.findLast(({ added }) => asksFor(definition, added));
  const isForAll = definition.kind === 'audience' && definition.holdsForAll;
  return asking?.by ?? (isForAll ? (added.findLast(({ by }) => 'messageId' in by)?.by ?? null) : null);
}
