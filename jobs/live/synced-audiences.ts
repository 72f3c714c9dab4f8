import type { Clock } from '../../src/kernel/clock.ts';
import type { Store } from '../../src/store/port.ts';
import type { Engine } from '../engines/port.ts';
import { idOf } from './identity.ts';

/** A user's membership of an audience computed by SQL, as of its last sync. */
export interface Membership {
  readonly audience: string;
  readonly user: string;
  readonly isIn: boolean;
}

/** Some memberships to import, and the audience's version that is known after them. */
interface NamedNews {
  readonly memberships: readonly Membership[];
  readonly version: { readonly key: string; readonly version: number } | null;
}

interface NamedParts {
  readonly store: Pick<Store, 'audience' | 'live'>;
  readonly clock: Clock;
  /** Runs work with the engine that has an audience's snapshot. */
  readonly ask: <T>(key: string, work: (engine: Engine) => Promise<T>) => Promise<T>;
}

/** Users whose memberships are imported in one step. */
const PAGE = 1_000;
/** Milliseconds between checks for syncs of audiences. */
const LOOK_EVERY = 250;
/** Engines remember a run's changes for at least this many milliseconds. */
const REMEMBERED = 60_000;
/** The version of an audience whose import is not complete. */
const BEGUN = -1;

/** Imports members of SQL audiences that live definitions refer to. Each sync changes a few rows of kept state. */
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
    if (this.keys.length === 0) return null;
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

  private async *changes(key: string, known: number | undefined): AsyncGenerator<NamedNews> {
    const { store, clock } = this.parts;
    const record = await store.audience(key);
    // A retired audience is empty.
    const version = record === null || record.endedAt !== null ? 0 : record.version;
    const now = clock.monotonic();
    if (version !== known) {
      const isNext = known !== undefined && version === known + 1;
      const wasSeen = now - (this.seenAt.get(key) ?? Number.NEGATIVE_INFINITY) < REMEMBERED;
      if (isNext && known !== BEGUN && wasSeen) yield* this.changedBy(key, version);
      else {
        if (known !== BEGUN) yield { memberships: [], version: { key, version: BEGUN } };
        if (version > 0) yield* this.members(key);
        yield* this.leavers(key, version > 0);
      }
      yield { memberships: [], version: { key, version } };
    }
    this.seenAt.set(key, now);
  }

  private async *changedBy(key: string, version: number): AsyncGenerator<NamedNews> {
    for (let after: string | undefined = ''; after !== undefined; ) {
      const from: string = after;
      const page = await this.parts.ask(key, (engine) => engine.runChangePage(key, version, from, PAGE));
      const memberships = page.map(({ userId, change }) => ({
        audience: key,
        user: userId,
        isIn: change !== 'exited',
      }));
      if (memberships.length > 0) yield { memberships, version: null };
      after = memberships.at(-1)?.user;
    }
  }

  private async *members(key: string): AsyncGenerator<NamedNews> {
    for (let after: string | undefined = ''; after !== undefined; ) {
      const from: string = after;
      const { userIds } = await this.parts.ask(key, (engine) => engine.memberPage(key, from, PAGE));
      const memberships = userIds.map((user) => ({ audience: key, user, isIn: true }));
      if (memberships.length > 0) yield { memberships, version: null };
      after = userIds.at(-1);
    }
  }

  /** Known members of any audience who are not in this one any more. */
  private async *leavers(key: string, isThere: boolean): AsyncGenerator<NamedNews> {
    for (let after: string | null = ''; after !== null; ) {
      const from: string = after;
      const { raws, last } = await this.parts.store.live.flaggedUsers(this.state, from, PAGE);
      const users = raws.map(idOf);
      const found =
        isThere && users.length > 0 ? await this.parts.ask(key, (engine) => engine.lookup(key, users)) : new Map();
      const gone = users.filter((user) => !found.get(user)?.present);
      if (gone.length > 0)
        yield { memberships: gone.map((user) => ({ audience: key, user, isIn: false })), version: null };
      after = last;
    }
  }
}
