import chunk from 'lodash/chunk.js';
import type { CurrentBody } from '../../jobs/index.ts';
import type { Clock } from '../kernel/clock.ts';
import { RollcallError } from '../kernel/errors.ts';
import type { Backlog, DeadLetter, Store } from '../store/port.ts';

export interface ReplayOptions {
  readonly store: Pick<Store, 'replay' | 'backlog'>;
  readonly currentBodies: (letters: readonly DeadLetter[]) => Promise<readonly CurrentBody[]>;
  readonly clock: Clock;
  /** Letters per second; null for as fast as the service delivers. */
  readonly rate: number | null;
  /** The most undelivered messages of a destination. Beyond that, the replay waits for it. */
  readonly maxPending: number;
  readonly signal: AbortSignal;
  readonly onProgress: (result: ReplayResult) => void;
  /** Called once for each wait for a destination with too much to deliver. */
  readonly onFull: (destination: string) => void;
}

export interface ReplayResult {
  readonly replayed: number;
  /** Letters that a newer change had replaced. */
  readonly superseded: number;
  /** Number of letters that stay, by the reason. */
  readonly left: ReadonlyMap<string, number>;
}

/** Letters whose current values are looked up together. */
const PAGE = 500;
const LOOK_AGAIN = 500;
/** Milliseconds after which a backlog that does not shrink is taken to have no process that delivers it. */
const PATIENCE = 60_000;

/**
 * Requeue dead letters, membership changes with their current value. Letters whose audience can't be read stay as they are.
 * When `signal` aborts, resolves with the result so far.
 *
 * @throws RollcallError `queue_full` when nobody delivers the queued messages
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
    // An interruption closes the store. Ignore failures that follow from that.
    if (!signal.aborted) throw error;
  }
  return result;
}

/** Wait for room, so that a replay never fills a queue so far that new messages are held out. */
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
      const message = `${full.destination} has ${full.queued} undelivered messages and delivers none. Is the service running? Run the same command to continue with the letters that are left.`;
      throw new RollcallError('queue_full', message);
    }
    await clock.sleep(LOOK_AGAIN, signal);
  }
}
