import { systemClock } from '../../kernel/clock.ts';
import { RollcallError } from '../../kernel/errors.ts';
import { Database, type DatabaseSession } from '../postgres/database.ts';
import { currentVersion, migratePostgres } from '../postgres/migrate.ts';
import { IDS_AHEAD } from './ids-ahead.ts';

/**
 * Prepare a restored database, which lacks the ids that the lost one gave out since the dump. The store keeps its id.
 *
 * @throws RollcallError `bad_usage` if the database has no store; `store_outdated`, `store_failed`
 */
export async function goOnRestored(url: string, onWait: () => void): Promise<void> {
  const db = new Database({ url, clock: systemClock, patient: true });
  try {
    if ((await currentVersion(db)) === 0)
      throw new RollcallError('bad_usage', 'The database has no store. Restore the dump first.');
    await migratePostgres(url, onWait);
    await db.transaction(async (session) => {
      await session.run(
        `SELECT setval(format('%I.%I', schemaname, sequencename)::regclass, coalesce(last_value, 0) + ${IDS_AHEAD})
         FROM pg_sequences WHERE schemaname = 'rollcall'`,
      );
      await endLeases(session);
      // Makes the event log repeat the deletions that the dump lacks.
      await session.run(
        `INSERT INTO rollcall.meta VALUES ('restored', gen_random_uuid())
         ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
      );
    });
  } finally {
    await db.close();
  }
}

/** End the leases of processes that a copy knows. */
export async function endLeases(session: DatabaseSession): Promise<void> {
  // Rows of owners stay, so that the next start frees their claims. Tokens of fences must not decrease.
  await session.run('UPDATE rollcall.owner SET lease_until = 0');
  await session.run('UPDATE rollcall.lease SET lease_until = 0');
}
