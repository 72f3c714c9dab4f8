import type { Clock } from '../../src/kernel/clock.ts';
import type { Store } from '../../src/store/port.ts';
import type { Engine } from '../engines/port.ts';
import type { JobLog } from '../run/run-context.ts';
import { valueAt } from './event.ts';
import { idOf } from './identity.ts';
import { type Imported, readReference } from './kept.ts';

/** A user's membership of an audience computed by SQL, or computed value, as of the last sync. */
export interface SyncedValue {
  /** As `referenceTo` makes it. */
  readonly name: string;
  readonly user: string;
  /** Undefined for users who are not in it, or have no value. */
  readonly value: Imported | undefined;
}

/** Some memberships to import, and the audience's version that is known after them. */
interface NamedNews {
  readonly memberships: readonly SyncedValue[];
  readonly version: { readonly key: string; readonly version: number } | null;
}

interface NamedParts {
  readonly store: Pick<Store, 'audience' | 'live'>;
  readonly clock: Clock;
  readonly log: Pick<JobLog, 'info'>;
  /** Runs work with the engine that has an audience's snapshot. */
  readonly ask: <T>(key: string, work: (engine: Engine) => Promise<T>) => Promise<T>;
}

/** Users whose memberships are imported in one step. */
const PAGE = 1_000;
/** Milliseconds between progress reports in the log. */
const SAY_EVERY = 10_000;
/** Milliseconds between checks for syncs of audiences. */
const LOOK_EVERY = 250;
/** Engines remember a run's changes for at least this many milliseconds. */
const REMEMBERED = 60_000;
/** The version of an audience whose import is not complete. */
const BEGUN = -1;

/** Imports members and values that live definitions refer to. Each sync changes a few rows of kept state. */
export class Named {
  private readonly parts: NamedParts;
  private readonly state: number;
  private readonly keys: readonly string[];
  private versions: ReadonlyMap<string, number> | null = null;
  /** Time at which each audience's version was last checked. */
  private readonly seenAt = new Map<string, number>();
  private lookedAt = Number.NEGATIVE_INFINITY;
  private running: AsyncGenerator<NamedNews> | null = null;

  constructor(parts: NamedParts, state: number, keys: Iterable<string>) {
    this.parts = parts;
    this.state = state;
    this.keys = [...keys];
  }

  /** True if no definition refers to one. */
  get isEmpty(): boolean {
    return this.keys.length === 0;
  }

  /** True once all of them have been imported. */
  get isKnown(): boolean {
    return this.keys.every((key) => (this.versions?.get(key) ?? BEGUN) !== BEGUN);
  }

  /** True if another state knows the same versions of the other's audiences. */
  isLike(other: Named): boolean {
    return other.keys.every((key) => this.versions?.get(key) === other.versions?.get(key));
  }

  /** The next memberships to import, if any. */
  async next(): Promise<NamedNews | null> {
    const { store, clock } = this.parts;
    if (this.isEmpty) return null;
    this.versions ??= new Map((await store.live.namedAudiences(this.state)).map(({ key, version }) => [key, version]));
    if (!this.running) {
      if (clock.monotonic() - this.lookedAt < LOOK_EVERY) return null;
      this.lookedAt = clock.monotonic();
      this.running = this.all(this.versions);
    }
    const { value, done } = await this.running.next();
    if (!done) return value;
    this.running = null;
    return null;
  }

  /** Call when they are written. */
  taken({ version }: NamedNews): void {
    if (version) this.versions = new Map([...(this.versions ?? []), [version.key, version.version]]);
  }

  /** Starts again immediately from the store's versions, after a failed step or for a command. */
  again(): void {
    this.running = null;
    this.versions = null;
    this.lookedAt = Number.NEGATIVE_INFINITY;
  }

  private async *all(versions: ReadonlyMap<string, number>): AsyncGenerator<NamedNews> {
    for (const key of this.keys) yield* this.changes(key, versions.get(key));
  }

  private async *changes(name: string, known: number | undefined): AsyncGenerator<NamedNews> {
    const { store, clock } = this.parts;
    const { key } = readReference(name);
    const record = await store.audience(key);
    // A retired audience is empty.
    const version = record === null || record.endedAt !== null ? 0 : record.version;
    const now = clock.monotonic();
    if (version !== known) {
      const isNext = known !== undefined && version === known + 1;
      const wasSeen = now - (this.seenAt.get(name) ?? Number.NEGATIVE_INFINITY) < REMEMBERED;
      if (isNext && known !== BEGUN && wasSeen) yield* this.changedBy(name, version);
      else {
        if (known !== BEGUN) yield { memberships: [], version: { key: name, version: BEGUN } };
        if (version > 0) yield* this.members(name);
        yield* this.leavers(name, version > 0);
      }
      yield { memberships: [], version: { key: name, version } };
    }
    this.seenAt.set(name, now);
  }

  private async *changedBy(name: string, version: number): AsyncGenerator<NamedNews> {
    const { key } = readReference(name);
    for (let after: string | undefined = ''; after !== undefined; ) {
      const from: string = after;
      const page = await this.parts.ask(key, (engine) => engine.runChangePage(key, version, from, PAGE));
      const memberships = page.map(({ userId, change, value }) => ({
        ...{ name, user: userId },
        value: change === 'exited' ? undefined : importedFrom(name, userId, value),
      }));
      if (memberships.length > 0) yield { memberships, version: null };
      after = memberships.at(-1)?.user;
    }
  }

  private async *members(name: string): AsyncGenerator<NamedNews> {
    const { clock, log } = this.parts;
    const { key } = readReference(name);
    const { members: total } = await this.parts.ask(key, (engine) => engine.snapshot(key));
    let done = 0;
    let saidAt = clock.monotonic();
    for (let after: string | undefined = ''; after !== undefined; ) {
      const from: string = after;
      const { userIds, values } = await this.parts.ask(key, (engine) => engine.memberPage(key, from, PAGE));
      const memberships = userIds.map((user, row) => ({
        ...{ name, user },
        value: importedFrom(name, user, values[row] ?? null),
      }));
      if (memberships.length > 0) yield { memberships, version: null };
      after = userIds.at(-1);
      done += userIds.length;
      if (clock.monotonic() - saidAt < SAY_EVERY) continue;
      saidAt = clock.monotonic();
      log.info({ key, done, total }, `Reading ${key} for live audiences: ${Math.floor((100 * done) / total)} %`);
    }
  }

  /** Known members of any audience who are not in this one any more, or have no value of it. */
  private async *leavers(name: string, isThere: boolean): AsyncGenerator<NamedNews> {
    const { key } = readReference(name);
    for (let after: string | null = ''; after !== null; ) {
      const from: string = after;
      const { raws, last } = await this.parts.store.live.flaggedUsers(this.state, from, PAGE);
      const users = raws.map(idOf);
      const found =
        isThere && users.length > 0 ? await this.parts.ask(key, (engine) => engine.lookup(key, users)) : new Map();
      const gone = users.filter((user) => !found.get(user)?.present);
      if (gone.length > 0) yield { memberships: gone.map((user) => ({ name, user, value: undefined })), version: null };
      after = last;
    }
  }
}

/** @param values - JSON text of the values of a member; null for an audience without columns */
function importedFrom(name: string, user: string, values: string | null): Imported | undefined {
  const { column } = readReference(name);
  if (column === null) return true;
  const value = valueAt(JSON.parse(values ?? '{}'), [column]) ?? null;
  return value === null ? undefined : [user, value];
}
