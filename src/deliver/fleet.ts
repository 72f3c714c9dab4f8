import isEqual from 'lodash/isEqual.js';
import type { Destination } from '../destination.ts';
import type { Logger } from '../kernel/log.ts';
import type { Owner, Records, Roster, RosterEntry } from '../store/port.ts';
import { type Share, shareOf } from './share.ts';

function rosterOf(destinations: readonly Destination[], removedAfter: number): Roster {
  return { destinations: destinations.map(({ name, enabled, sources }) => ({ name, enabled, sources })), removedAfter };
}

interface FleetOptions {
  readonly store: Pick<Records, 'owners' | 'publish' | 'rosters'>;
  /** This process, which gets a new number with each lease. */
  readonly owner: () => number;
  readonly log: Logger;
  /** Called after each division of the destinations, with true if the set of processes has changed. */
  readonly onDivided: (isChanged: boolean) => void;
}

interface Member {
  readonly owner: number;
  readonly served: ReadonlySet<string>;
}

/** The delivering processes and the destinations each serves: configurations may differ during a rolling update. */
export class Fleet {
  private readonly options: FleetOptions;
  private own: Roster = { destinations: [], removedAfter: 0 };
  private published: { readonly owner: number; readonly roster: Roster } | null = null;
  private owners: readonly Owner[] = [];
  private members: readonly Member[] = [];
  private rosters: ReadonlyMap<string, Roster> = new Map();
  private announcing: Promise<void> = Promise.resolve();

  constructor(options: FleetOptions) {
    this.options = options;
  }

  /** Sets the destinations that this process knows; `announce` publishes them. */
  know(destinations: readonly Destination[], removedAfter: number): void {
    this.own = rosterOf(destinations, removedAfter);
  }

  /** Publishes the destinations that this process serves, reads those of others, and divides them among all. */
  announce(): Promise<void> {
    this.announcing = this.announcing.then(() => this.divide());
    return this.announcing;
  }

  private async divide(): Promise<void> {
    try {
      await this.publish();
      this.options.onDivided(await this.refresh());
    } catch (error) {
      this.options.log.error(
        { stage: 'claim', err: error },
        'Could not divide the destinations among the processes; retrying',
      );
    }
  }

  async settled(): Promise<void> {
    await this.announcing;
  }

  /** Publishes the roster unless it is published already; the next call retries a failure. */
  private async publish(): Promise<void> {
    const owner = this.options.owner();
    const roster = this.own;
    if (this.published?.owner === owner && isEqual(this.published.roster, roster)) return;
    try {
      await this.options.store.publish(owner, roster);
      this.published = { owner, roster };
    } catch (error) {
      this.options.log.warn(
        { stage: 'claim', err: error },
        'Could not publish the destinations that this process serves; retrying',
      );
    }
  }

  /** Reads which processes deliver, and what; resolves to true if anything changed. */
  private async refresh(): Promise<boolean> {
    const { store, log } = this.options;
    try {
      const owners = await store.owners();
      if (isEqual(owners, this.owners)) return false;
      const ids = new Set(owners.flatMap(({ roster }) => roster ?? []));
      const missing = [...ids].filter((id) => !this.rosters.has(id));
      const found = missing.length > 0 ? await store.rosters(missing) : [];
      this.rosters = new Map([...this.rosters, ...found].filter(([id]) => ids.has(id)));
      const served = new Map([...this.rosters].map(([id, roster]) => [id, servedBy(roster)]));
      this.members = owners.map(({ id, roster }) => ({ owner: id, served: served.get(roster ?? '') ?? NOTHING }));
      this.owners = owners;
      return true;
    } catch (error) {
      log.warn({ stage: 'claim', err: error }, 'Could not read which processes deliver; retrying');
      return false;
    }
  }

  get isAlone(): boolean {
    return this.owners.length <= 1;
  }

  shareOf(destination: string): Share | null {
    return shareOf(destination, this.options.owner(), this.serving(destination));
  }

  /** Time unknown after which a destination counts as removed: the longest among live processes. */
  get removedAfter(): number {
    return Math.max(this.own.removedAfter, ...[...this.rosters.values()].map(({ removedAfter }) => removedAfter));
  }

  private *serving(destination: string): Generator<number> {
    for (const { owner, served } of this.members) if (served.has(destination)) yield owner;
  }
}

/** All destinations of live processes, as each of their configurations has them. */
export async function destinationsOfFleet(store: Pick<Records, 'owners' | 'rosters'>): Promise<readonly RosterEntry[]> {
  const ids = new Set((await store.owners()).flatMap(({ roster }) => roster ?? []));
  return [...(await store.rosters([...ids])).values()].flatMap(({ destinations }) => destinations);
}

const NOTHING: ReadonlySet<string> = new Set();

function servedBy({ destinations }: Roster): ReadonlySet<string> {
  return new Set(destinations.flatMap(({ name, enabled }) => (enabled ? name : [])));
}
