import type { DatabaseSession } from './database.ts';

/** Indexes left by a failed build, which find nothing or not all. */
const INVALID = `SELECT indexrelid::regclass::text FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
  WHERE c.relnamespace = 'rollcall'::regnamespace AND NOT (indisvalid AND indisready)`;
const CHECKSUMS = 'SELECT coalesce(checksum_failures, 0) FROM pg_stat_database WHERE datname = current_database()';

/** Return the damage that Postgres itself reports. Databases that only speak its protocol do their own checks. */
export async function check(db: DatabaseSession): Promise<string | null> {
  const [version] = (await db.rows<[string]>('SELECT version()'))[0] ?? [''];
  if (!/^PostgreSQL(?!.*-YB-)/.test(version)) return null;
  const found = (await db.rows<[string]>(INVALID)).map(([index]) => `the index ${index} is invalid`);
  const [failures] = (await db.rows<[number]>(CHECKSUMS))[0] ?? [0];
  if (failures > 0) found.push(`${failures} pages of the database failed their checksum`);
  return found.length === 0 ? null : found.join('; ');
}
