import type { StoreContext } from './context.ts';
import { onOwnConnection } from './own-connection.ts';

const TABLES = ['delivery', 'dead_letter', 'attempt', 'discard', 'regulation', 'run', 'event'];

/**
 * Frees the rows that were erased. What Postgres keeps of them beyond that, in free space and in its log, is its own
 * affair. A database that has no VACUUM, or a role that may not, leaves it to the server's own.
 */
export async function scrub({ url }: Pick<StoreContext, 'url'>): Promise<void> {
  await onOwnConnection(url, undefined, async (client) => {
    for (const table of TABLES) await client.query(`VACUUM (SKIP_LOCKED) rollcall.${table}`).catch(() => undefined);
  });
}
