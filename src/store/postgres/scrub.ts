import type { StoreContext } from './context.ts';
import { onOwnConnection } from './own-connection.ts';

const TABLES = ['delivery', 'dead_letter', 'attempt', 'discard', 'regulation', 'run', 'event'];

/**
 * Vacuum erased rows. Copies that Postgres keeps in free space and in its log are its own affair. A database without
 * VACUUM, or a role that may not run it, leaves this to the server's own.
 */
export async function scrub({ url }: Pick<StoreContext, 'url'>): Promise<void> {
  await onOwnConnection(url, undefined, async (client) => {
    for (const table of TABLES) await client.query(`VACUUM (SKIP_LOCKED) rollcall.${table}`).catch(() => undefined);
  });
}
