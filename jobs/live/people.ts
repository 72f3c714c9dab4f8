import { standingOf } from './evaluate.ts';
import { dayNumber, type LiveEvent } from './event.ts';
import { type AskedFacts, type AskedOfAll, asksFor } from './facts.ts';
import { addLink, idOf, isUser, type Link, linksIn, personOf, type RawId, rawIdOf, userRaw } from './identity.ts';
import { type KeptFacts, nothingKept } from './kept.ts';
import { type AddedFacts, forgetDays, keep, keepMembership, tidy } from './kept-facts.ts';
import type { Membership } from './synced-audiences.ts';

/** All that is known of one id. */
export interface IdRow {
  readonly raw: RawId;
  /** The user that it belongs to; null for nobody. */
  person: string | null;
  readonly kept: KeptFacts;
  readonly links: Link[];
  /** Of a person, when something may become another by time alone. */
  due: number | null;
  /** As the store has it; null for nothing. */
  readonly before: {
    readonly person: string | null;
    readonly due: number | null;
    readonly oldest: number | null;
  } | null;
}

/** Where rows are between two steps. */
export interface IdRows {
  /**
   * Rows of these ids, and of all persons whom they belong to. A user id belongs to itself where no row says otherwise.
   *
   * @param isLean - without other anonymous ids of which nothing is kept but whose they are
   */
  around(raws: readonly RawId[], isLean: boolean): Promise<readonly IdRow[]>;
  /** All rows of these persons. */
  ofPersons(persons: readonly string[]): Promise<readonly IdRow[]>;
}

/** A person's values now, by the definitions that may say something new. */
export interface Standings {
  readonly person: string;
  /** By key; those that are missing say that the person is not in it, as all do of former ids. */
  readonly values: ReadonlyMap<string, unknown>;
  /** The event, or the audience, that had a definition looked at; null because of the time. Asked only of what changed. */
  readonly cause: (key: string) => EvaluationCause | null;
}

/** A reason for which a definition is looked at, other than the time: an event, or a membership of an audience by SQL. */
export type EvaluationCause = LiveEvent | Membership;

interface Step {
  /** To be written. */
  readonly rows: readonly IdRow[];
  readonly standings: readonly Standings[];
}

/** The input of a step. */
export interface News {
  readonly events: readonly LiveEvent[];
  /** Persons whose time has come. */
  readonly due: readonly string[];
  /** Memberships of audiences by SQL that have changed. */
  readonly memberships: readonly Membership[];
  /** Ids of which something was received before the first day of the log. */
  readonly old: readonly RawId[];
  /** Never earlier than at the step before, nor than the receipt of any event. */
  readonly now: number;
  /** First day of the log, counted from 1970: what was received before is forgotten. */
  readonly first: number;
}

/** Computes the changes that events, the time and forgotten days bring, for all definitions. Looks only at people they touch. */
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
  private readonly changed = new Set<IdRow>();
  /** Rows with what was added to them, and by what. */
  private readonly added: { readonly row: IdRow; readonly by: EvaluationCause; readonly added: AddedFacts }[] = [];
  /** Events that said something new of who is who. */
  private readonly linking: { readonly row: IdRow; readonly event: LiveEvent }[] = [];
  /** Those who are to be looked at, whatever was added: who they are has changed, or what is known of them is forgotten. */
  private readonly moved = new Map<string, LiveEvent | null>();
  private readonly first: number;
  /** Whether links are forgotten. */
  private unlinked = false;

  constructor(asked: AskedOfAll, source: IdRows, first: number) {
    this.asked = asked;
    this.source = source;
    this.first = first;
  }

  async load({ events, memberships, due, old }: News): Promise<void> {
    // A person may be a former id by now: its row is another one's.
    const raws = new Set<RawId>([...old, ...due.map(userRaw)]);
    const lean = new Set<RawId>(memberships.map(({ user }) => userRaw(user)));
    for (const event of events) {
      const own = this.concerns(event) ? rawIdOf(event) : null;
      if (own !== null) lean.add(own);
      for (const { raw, link } of linksIn(event)) raws.add(raw).add(userRaw(link[0]));
    }
    let fresh = await this.fetch(raws, due, lean);
    for (const id of old) {
      const row = this.rows.get(id);
      if (row) this.changed.add(row);
    }
    // Whose an id is now, another link may say: its user and all who belong to that one.
    const read = new Set(raws);
    for (let next = this.forget(fresh); ; next = this.forget(fresh)) {
      const unknown = new Set([...next].filter((raw) => !read.has(raw)));
      if (unknown.size === 0) return;
      for (const raw of unknown) read.add(raw);
      fresh = await this.fetch(unknown, []);
    }
  }

  /**
   * Takes these rows, and all of the persons whom they belong to; resolves to those that were not here.
   *
   * @param lean - those whose persons stay who they are: rows that only say whose an id is are not needed
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
    return [...this.take(around), ...this.take(ofDue), ...this.take(leanly)];
  }

  /** Forgets what the log has forgotten; returns the users that these ids may belong to now. */
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
      for (const [user] of links) users.add(userRaw(user));
    }
    return users;
  }

  private concerns({ event, type }: LiveEvent): boolean {
    if (this.asked.everybody) return true;
    if (type === 'identify') return this.asked.traits.size > 0;
    return event !== null && this.asked.sections.has(event);
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
    for (const { raw, link } of linksIn(event)) {
      const row = this.row(raw);
      this.changed.add(this.row(userRaw(link[0])));
      if (!addLink(row.links, raw, link)) continue;
      this.changed.add(row);
      this.linking.push({ row, event });
    }
  }

  join(membership: Membership): void {
    const row = this.row(userRaw(membership.user));
    const added = keepMembership(row.kept, membership.audience, membership.isIn);
    if (!added.any) return;
    this.changed.add(row);
    this.added.push({ row, by: membership, added });
  }

  /** Finds anew whom each id belongs to. Rows of all persons that may have changed are here. */
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
    const standings: Standings[] = [];
    for (const person of touched) {
      const own = this.row(userRaw(person));
      const rows = own.person === person ? (byPerson.get(person) ?? []) : [];
      const { due: next, ...standing } = this.standings(person, rows, causes.get(person) ?? [], now);
      standings.push(standing);
      if (own.due === next) continue;
      own.due = next;
      this.changed.add(own);
    }
    for (const { kept } of this.changed) tidy(kept, this.asked, now);
    return { rows: [...this.changed], standings };
  }

  private standings(
    person: string,
    rows: readonly IdRow[],
    added: readonly { readonly by: EvaluationCause; readonly added: AddedFacts }[],
    now: number,
  ): Standings & { readonly due: number | null } {
    const standing = standingOf(
      this.asked,
      rows.map((row) => row.kept),
      now,
    );
    const mover = this.moved.get(person) ?? null;
    const cause = (key: string) => mover ?? causeOf(this.asked.byKey.get(key), added);
    return { person, ...standing, cause };
  }
}

/** The last one that added to what a definition asks; where it asks who is there, any may have. */
function causeOf(
  definition: AskedFacts | undefined,
  added: readonly { readonly by: EvaluationCause; readonly added: AddedFacts }[],
): EvaluationCause | null {
  if (!definition) return null;
  const asking = added.findLast(({ added }) => asksFor(definition, added));
  const isForAll = definition.kind === 'audience' && definition.holdsForAll;
  return asking?.by ?? (isForAll ? (added.at(-1)?.by ?? null) : null);
}
