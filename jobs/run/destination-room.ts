import { type Backlog, isClosed, type Run } from '../../src/store/port.ts';
import type { RunContext } from './run-context.ts';

const FIRST_WAIT = 100;
const LONGEST_WAIT = 2_000;
/** Milliseconds that a full queue may stand still before the run continues without its destination. */
const PATIENCE = 10 * 60_000;

type RoomParts = Pick<RunContext, 'store' | 'config' | 'clock' | 'log' | 'signal' | 'onProgress'>;

/** The destinations of a run that take messages now, and how many each. */
interface Room {
  readonly scope: readonly string[];
  readonly free: number;
}

/**
 * Waits until each destination's queue has room for `wanted` messages, or for a quarter of its capacity. Destinations
 * that take nothing in the meantime are dropped from the run, unless it is their last.
 */
export async function waitForRoom(
  { store, config, clock, log, signal, onProgress }: RoomParts,
  run: Run,
  given: readonly string[],
  wanted: number,
): Promise<Room> {
  const { maxQueued } = store;
  const enough = Math.min(wanted, Math.max(1, Math.ceil(maxQueued / 4)));
  const queues = new StandingQueues(clock);
  let scope = given;
  for (let wait = FIRST_WAIT; ; wait = Math.min(wait * 2, LONGEST_WAIT)) {
    signal.throwIfAborted();
    const enabled = new Set(config().destinations.flatMap(({ name, enabled }) => (enabled ? [name] : [])));
    scope = scope.filter((name) => enabled.has(name));
    const free = await freePlaces(store);
    const full = scope.filter((name) => free(name) < enough);
    if (full.length === 0) return { scope, free: Math.min(wanted, ...scope.map(free)) };
    const idle = await takingNothing({ store, config });
    await queues.look(store);
    const lost = full.filter((name) => idle.has(name) || queues.standStill(name));
    // A retired audience is forgotten with its run: destinations out of reach could not be notified later.
    if (run.action === 'retire' && lost.length === full.length) return { scope, free: wanted };
    if (run.action !== 'retire' && lost.length > 0) {
      for (const destination of lost) {
        log.warn(
          { run: run.id, key: run.key, destination },
          'The destination takes nothing and its queue is full; continuing without it, a later run will catch it up',
        );
      }
      scope = scope.filter((name) => !lost.includes(name));
      continue;
    }
    if (wait === LONGEST_WAIT) log.info({ run: run.id, key: run.key, full }, 'Waiting for full queues to drain');
    onProgress({ run: run.id, key: run.key, phase: 'wait', done: 0, total: null, waitsFor: full });
    await clock.sleep(wait, signal);
  }
}

/** Resolves to a test for destinations that take messages now: an endpoint is open, and the queue has room. */
export async function areBack(place: Pick<RoomParts, 'store' | 'config'>): Promise<(destination: string) => boolean> {
  const idle = await takingNothing(place);
  const free = await freePlaces(place.store);
  return (name) => !idle.has(name) && free(name) > 0;
}

/** Resolves to a lookup of the room in a destination's queue; 0 while messages are held out. */
async function freePlaces(store: RoomParts['store']): Promise<(destination: string) => number> {
  const rows = new Map((await store.backlog()).map((row) => [row.destination, row]));
  return (name) => {
    const row = rows.get(name);
    if (!row) return store.maxQueued;
    return row.heldOut > 0 ? 0 : Math.max(0, store.maxQueued - row.queued);
  };
}

/** Names of destinations whose endpoints are all closed. */
async function takingNothing({ store, config }: Pick<RoomParts, 'store' | 'config'>): Promise<ReadonlySet<string>> {
  const closed = new Set((await store.endpoints()).filter(isClosed).map(({ endpoint }) => endpoint));
  const { destinations } = config();
  return new Set(
    destinations.filter(({ endpoints }) => endpoints.every(({ id }) => closed.has(id))).map(({ name }) => name),
  );
}

class StandingQueues {
  private readonly clock: RoomParts['clock'];
  private readonly seen = new Map<string, { readonly state: string; readonly since: number }>();

  constructor(clock: RoomParts['clock']) {
    this.clock = clock;
  }

  async look(store: RoomParts['store']): Promise<void> {
    for (const row of await store.backlog()) {
      const state = stateOf(row);
      if (this.seen.get(row.destination)?.state === state) continue;
      this.seen.set(row.destination, { state, since: this.clock.monotonic() });
    }
  }

  standStill(destination: string): boolean {
    const seen = this.seen.get(destination);
    return seen !== undefined && this.clock.monotonic() - seen.since >= PATIENCE;
  }
}

const stateOf = ({ pending, dead, queued, heldOut }: Backlog) => [pending, dead, queued, heldOut].join();
