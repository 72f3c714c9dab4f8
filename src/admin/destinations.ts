import { type Annotations, aboutOf } from '../about.ts';
import type { Config } from '../config/config.ts';
import { RollcallError } from '../kernel/errors.ts';
import { nothingNamed } from '../kernel/spelling.ts';
import type { Queue, Records } from '../store/port.ts';

export interface DestinationStatus extends Annotations {
  readonly destination: string;
  /** State in the local configuration. */
  readonly state: 'enabled' | 'disabled' | 'not configured';
  /** Live processes that know it, even if it is disabled there. */
  readonly processes: number;
  readonly pending: number;
  readonly dead: number;
  /** Dead letters `queue_full`, which are queued again automatically. */
  readonly heldOut: number;
  /** Start of the time with pending deliveries that no live process knows, if it is counted. */
  readonly unknownSince: string | null;
  /** Milliseconds for which processes delivered without knowing it. */
  readonly unknownFor: number;
  /** The value of `unknownFor` at which the deliveries become dead letters. */
  readonly removedAfter: number;
}

/** All destinations that are configured here, known to a live process, or have deliveries or dead letters, by name. */
export async function destinationStatuses(
  store: Pick<Records, 'backlog' | 'orphans' | 'owners' | 'rosters'>,
  { destinations, delivery }: Pick<Config, 'destinations' | 'delivery'>,
): Promise<DestinationStatus[]> {
  const [{ owners, rosters }, unknown, counted] = await Promise.all([
    rostersOf(store),
    store.orphans(),
    store.backlog(),
  ]);
  const processes = new Map<string, number>();
  for (const owner of owners) {
    for (const { name } of rosters.get(owner)?.destinations ?? []) processes.set(name, (processes.get(name) ?? 0) + 1);
  }
  const removedAfter = Math.max(delivery.removedAfter, ...[...rosters.values()].map((roster) => roster.removedAfter));
  const orphans = new Map(unknown.map((orphan) => [orphan.destination, orphan]));
  const backlogs = new Map(counted.map((backlog) => [backlog.destination, backlog]));
  const known = new Map(destinations.map((destination) => [destination.name, destination]));
  const held = [...backlogs.values()].filter(({ pending, dead }) => pending + dead > 0);
  const names = new Set([...known.keys(), ...processes.keys(), ...held.map(({ destination }) => destination)]);
  return [...names].toSorted().map((destination) => {
    const { since = null, unknownFor = 0 } = orphans.get(destination) ?? {};
    const configured = known.get(destination);
    return {
      destination,
      state: configured === undefined ? 'not configured' : configured.enabled ? 'enabled' : 'disabled',
      processes: processes.get(destination) ?? 0,
      pending: backlogs.get(destination)?.pending ?? 0,
      dead: backlogs.get(destination)?.dead ?? 0,
      heldOut: backlogs.get(destination)?.heldOut ?? 0,
      unknownSince: since === null ? null : new Date(since).toISOString(),
      unknownFor,
      removedAfter,
      ...aboutOf(configured ?? {}),
    };
  });
}

/** The roster ids of the live processes, and the rosters. */
async function rostersOf(store: Pick<Records, 'owners' | 'rosters'>) {
  const owners = (await store.owners()).flatMap(({ roster }) => roster ?? []);
  return { owners, rosters: await store.rosters([...new Set(owners)]) };
}

/** True if nobody will deliver its messages: neither a live process nor the local configuration knows it. */
export function isGone({ state, processes }: DestinationStatus): boolean {
  return state === 'not configured' && processes === 0;
}

/**
 * The destination of this name, if its deliveries may be dropped.
 *
 * @throws RollcallError `bad_usage` if it is unknown or still in use
 */
export function goneDestination(statuses: readonly DestinationStatus[], name: string): DestinationStatus {
  const status = statuses.find(({ destination }) => destination === name);
  if (!status) {
    const known = statuses.map(({ destination }) => destination);
    throw new RollcallError('bad_usage', nothingNamed('destination', [name], known));
  }
  if (isGone(status)) return status;
  const why =
    status.processes > 0
      ? `${name} is known to a process that runs. Take it out of its configuration first, and reload or stop it.`
      : `${name} is in this configuration. Take it out first.`;
  throw new RollcallError('bad_usage', why);
}

/** Deliveries dropped in one transaction. */
const STEP = 1_000;

/** Turn up to `most` pending deliveries of a destination into dead letters. Resolves to their number. */
export async function dropDestination(store: Pick<Queue, 'bury'>, destination: string, most: number): Promise<number> {
  for (let dropped = 0; ; ) {
    const step = await store.bury(destination, Math.min(STEP, most - dropped));
    dropped += step;
    if (step < STEP || dropped >= most) return dropped;
  }
}
