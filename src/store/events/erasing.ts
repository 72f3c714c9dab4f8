import type { LogFile } from '../event-log.ts';
import type { Workbench } from './parquet.ts';

/** Read former ids with the ids that replaced them. */
export async function readAliases(bench: Workbench, files: readonly LogFile[]): Promise<[string, string][]> {
  const rows = await bench.rows(
    `SELECT DISTINCT previous_id, user_id FROM ${bench.files(files)}
     WHERE type = 'alias' AND previous_id IS NOT NULL AND user_id IS NOT NULL`,
  );
  return rows.map(([former, user]) => [String(former), String(user)]);
}

/** Return these users' anonymous ids. Each belongs to the first user identified with it or aliased to it. */
export async function ownIds(bench: Workbench, files: readonly LogFile[], users: string): Promise<string[]> {
  const rows = await bench.rows(
    `SELECT id FROM (
       SELECT coalesce(anonymous_id, previous_id) AS id, user_id, row_number() OVER (
         PARTITION BY coalesce(anonymous_id, previous_id) ORDER BY timestamp, received_at, message_id
       ) AS place
       FROM (
         SELECT CASE WHEN type = 'identify' THEN anonymous_id END AS anonymous_id,
           CASE WHEN type = 'alias' THEN previous_id END AS previous_id, user_id, timestamp, received_at, message_id
         FROM ${bench.files(files)} WHERE type IN ('identify', 'alias') AND user_id IS NOT NULL
       )
     ) WHERE place = 1 AND id IS NOT NULL AND user_id IN (SELECT id FROM ${users})`,
  );
  return rows.map(([id]) => String(id));
}

/** Return the ids of users in files, each once. */
export async function userIds(bench: Workbench, files: readonly LogFile[]): Promise<string[]> {
  const rows = await bench.rows(
    `SELECT DISTINCT user_id FROM ${bench.files(files)} WHERE user_id IS NOT NULL
     UNION SELECT DISTINCT previous_id FROM ${bench.files(files)} WHERE previous_id IS NOT NULL`,
  );
  return rows.map(([id]) => String(id));
}

/** Return an SQL condition for events of users, or of their anonymous ids; the tables hold the ids. */
export function rowsOf(users: string, anonymous: string, until?: number): string {
  const ids = (table: string) => `(SELECT id FROM ${table})`;
  const theirs = `user_id IN ${ids(users)} OR previous_id IN ${ids(users)} OR (user_id IS NULL AND anonymous_id IN ${ids(anonymous)})`;
  return until === undefined ? `(${theirs})` : `((${theirs}) AND received_at <= make_timestamp_ms(${until}))`;
}
