import type { Clock } from '../../../src/kernel/clock.ts';
import { openSession, type PostgresSession } from './session.ts';

/** Milliseconds that an unused session stays open. */
const STAYS = 10_000;

interface Idle {
  readonly session: PostgresSession;
  /** Ends the stay, not the session. */
  readonly leave: () => void;
}

/** Sessions that are open and unused, by what they were opened with. */
const idle = new Map<string, Idle>();

/**
 * A session for work that leaves nothing in it, which stays open for the next such work: a new one takes longer than
 * most look-ups, and has read no catalogue yet.
 *
 * @throws RollcallError `engine_unreachable`
 */
export async function stayingSession(
  url: string,
  options: Parameters<typeof openSession>[1],
  clock: Clock,
  signal: AbortSignal | undefined,
): Promise<PostgresSession> {
  const place = JSON.stringify([url, options]);
  const kept = idle.get(place);
  kept?.leave();
  const session = kept && !kept.session.isOver() ? kept.session : await openSession(url, options);
  return {
    ...session,
    async close() {
      // A late cancellation would end the next statement.
      if (signal?.aborted || session.isOver() || idle.has(place)) return session.close();
      const end = () => {
        leave();
        session.close().catch(() => {});
      };
      const cancel = clock.after(STAYS, end);
      signal?.addEventListener('abort', end);
      const leave = () => {
        idle.delete(place);
        cancel();
        signal?.removeEventListener('abort', end);
      };
      idle.set(place, { session, leave });
    },
  };
}
