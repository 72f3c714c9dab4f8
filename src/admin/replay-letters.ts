import chunk from 'lodash/chunk.js';
import type { CurrentBody } from '../../jobs/index.ts';
import type { Clock } from '../kernel/clock.ts';
import { RollcallError } from '../kernel/errors.ts';
import type { Backlog, DeadLetter, Store } from '../store/port.ts';

export interface ReplayOptions {
  readonly store: Pick<Store, 'replay' | 'backlog'>;
  readonly currentBodies: (letters: readonly DeadLetter[]) => Promise<readonly CurrentBody[]>;
  readonly clock: Clock;
  /** Letters a second; null for as fast as the service delivers them. */
  readonly rate: number | null;
  /** Undelivered messages that a destination may have before the replay waits for it. */
  readonly maxPending: number;
  readonly signal: AbortSignal;
  readonly onProgress: (result: ReplayResult) => void;
  /** Called once for every wait for a destination that has too much to deliver. */
  readonly onFull: (destination: string) => void;
}

export interface ReplayResult {
  /** Letters queued again. */
  readonly replayed: number;
  /** Letters that a newer change had taken the place of. */
  readonly superseded: number;
  /** Letters that stay, by what stands in their way. */
  readonly left: ReadonlyMap<string, number>;
}

/** Letters of which the values of now are looked up at once. */
const PAGE = 500;
const LOOK_AGAIN = 500;
/** A destination whose backlog does not shrink for so long has nobody who delivers it. */
const PATIENCE = 60_000;

/**
 * Queues dead letters again; membership changes with the value of now. Letters whose audience can't be asked stay as they
 * are. Resolves, when `signal` aborts, with what was done so far.
 *
 * @throws RollcallError `queue_full` when nobody delivers what is queued
 */
export async function replayLetters(
  pages: AsyncIterable<readonly DeadLetter[]>,
  options: ReplayOptions,
): Promise<ReplayResult> {
  const { store, currentBodies, clock, rate, signal, onProgress } = options;
  const left = new Map<string, number>();
  const result = { replayed: 0, superseded: 0, left };
  const size = Math.min(PAGE, options.maxPending, rate ?? PAGE);
  let nextAt = clock.monotonic();
  try {
    for await (const page of pages) {
      for (const letters of chunk(page, size)) {
        const wait = nextAt - clock.monotonic();
        if (wait > 0) await clock.sleep(wait, signal);
        await untilRoom(letters, options);
        nextAt = clock.monotonic() + (rate === null ? 0 : (letters.length / rate) * 1_000);
        const bodies = await currentBodies(letters);
        const replays = letters.flatMap(({ id }, place) => {
          const body = bodies[place] ?? null;
          if (!(body instanceof RollcallError)) return [{ id, body }];
          const cause = `${body.code}: ${body.message}`;
          left.set(cause, (left.get(cause) ?? 0) + 1);
          return [];
        });
        signal.throwIfAborted();
        const queued = await store.replay(replays);
        result.replayed += queued;
        result.superseded += replays.length - queued;
        onProgress(result);
      }
    }
  } catch (error) {
    // An interruption closes the store; failures that follow from it are none of the replay's.
    if (!signal.aborted) throw error;
  }
  return result;
}

/** A replay never fills a queue so far that what is new would be held out. */
async function untilRoom(letters: readonly DeadLetter[], options: ReplayOptions): Promise<void> {
  const { store, clock, maxPending, signal, onFull } = options;
  const wanted = Map.groupBy(letters, ({ destination }) => destination);
  const isFull = ({ destination, queued }: Backlog) =>
    queued + (wanted.get(destination)?.length ?? Number.NEGATIVE_INFINITY) > maxPending;
  let last: Backlog | undefined;
  for (let since = clock.monotonic(); ; ) {
    const full = (await store.backlog()).find(isFull);
    if (!full) return;
    if (full.destination !== last?.destination) onFull(full.destination);
    if (full.destination !== last?.destination || full.queued < last.queued) {
      last = full;
      since = clock.monotonic();
    }
    if (clock.monotonic() - since >= PATIENCE) {
      const message = `${full.destination} has ${full.queued} undelivered messages and delivers none. Is the service running? The same command goes on with the letters that are left.`;
      throw new RollcallError('queue_full', message);
    }
    await clock.sleep(LOOK_AGAIN, signal);
  }
}
