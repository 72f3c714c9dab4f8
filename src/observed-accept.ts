import type { Logger } from 'pino';
import type { Accept } from './accept.ts';
import type { Metrics } from './admin/metrics/metrics.ts';
import type { Clock } from './kernel/clock.ts';
import { RollcallError } from './kernel/errors.ts';
import type { AcceptResult, Lane } from './store/port.ts';

interface Observer {
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Pick<Metrics, 'accepted' | 'refused'>;
  /** Throws when the process can't go on. */
  readonly alive: () => void;
  /** Called with the steady clock's time of each batch that is no backfill. */
  readonly onLive: (at: number) => void;
}

/** Counts accepted and refused messages. Callers log refusals. */
export function observedAccept(accept: Accept, { clock, log, metrics, alive, onLive }: Observer): Accept {
  // As in `createAccept`, nothing here holds the messages while it waits.
  return (source, messages, options) => {
    const startedAt = clock.monotonic();
    const lane = options?.lane ?? 'live';
    if (lane !== 'backfill') onLive(startedAt);
    const accepting = new Promise<AcceptResult>((resolve) => {
      alive();
      resolve(accept(source, messages, options));
    });
    return counted(accepting, source, lane, startedAt);
  };

  async function counted(accepting: Promise<AcceptResult>, source: string, lane: Lane, startedAt: number) {
    try {
      const result = await accepting;
      const ms = Math.round(clock.monotonic() - startedAt);
      metrics.accepted(source, result, ms);
      log.debug({ stage: 'accept', source, lane, ...result, ms }, 'accepted');
      return result;
    } catch (error) {
      metrics.refused(source, error instanceof RollcallError ? error.code : 'internal_error');
      throw error;
    }
  }
}
