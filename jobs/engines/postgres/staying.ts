import type { Clock } from '../../../src/kernel/clock.ts';
import { openSession, type PostgresSession, type SessionOptions } from './session.ts';

/** Milliseconds that an unused session stays open. */
const STAYS = 10_000;

/** Sessions that are open and unused. `leave` ends the stay, not the session. */
const idle = new Map<PostgresSession, { readonly place: string; readonly leave: () => void }>();

/**
 * A session for work that leaves nothing in it, which stays open for the next such work: a new one takes longer than
 * most look-ups, and has read no catalogue yet.
 *
 * @throws RollcallError `engine_unreachable`
 */
export async function stayingSession(
  url: string,
  options: SessionOptions,
  clock: Clock,
  signal: AbortSignal | undefined,
): Promise<PostgresSession> {
  const place = JSON.stringify([url, options]);
  const [kept, stay] = [...idle].find(([session, stay]) => stay.place === place && !session.isOver()) ?? [];
  stay?.leave();
  const session = kept ?? (await openSession(url, options));
  return {
    ...session,
    async close() {
      // A late cancellation would end the next statement.
      if (signal?.aborted || session.isOver()) return session.close();
      const end = () => {
        leave();
        session.close().catch(() => {});
      };
      const cancel = clock.after(STAYS, end);
      signal?.addEventListener('abort', end);
      const leave = () => {
        idle.delete(session);
        cancel();
        signal?.removeEventListener('abort', end);
      };
      idle.set(session, { place, leave });
    },
  };
}
