import { failpoint } from '../../../kernel/failpoint.ts';
import type { TableLog } from '../../event-log.ts';
import { personOf } from '../../events/person.ts';
import { text } from '../arrays.ts';
import type { StoreContext } from '../context.ts';
import type { Database } from '../database.ts';
import { dropDays, firstDay, prepareDays, sizeOfDays } from './event-days.ts';
import { eventsSince, scanEvents } from './event-reading.ts';
import { EVENTS_SCHEMA } from './event-writing.ts';

/** @param during - runs work that closing waits for */
export function tableLog({ db, url }: StoreContext, during: <T>(work: () => Promise<T>) => Promise<T>): TableLog {
  return {
    kind: 'table',
    firstDay: () => during(() => firstDay(db)),
    prepare: (now) => during(() => prepareDays(db, now)),
    dropBefore: (day) => during(() => dropDays(db, day)),
    since: (place, now) => during(() => eventsSince(db, place, now)),
    scan: (wanted, now, signal, ...given) => during(() => scanEvents({ url, now, signal }, wanted, ...given)),
    forget: (users, sources, until) => during(() => forget(db, users, sources, until)),
    userIds: () => during(() => userIds(db)),
    restored: () => during(() => restored(db)),
    summary: () => during(() => summary(db)),
    size: () => during(() => sizeOfDays(db)),
  };
}

const THEIRS = `($2::text[] IS NULL OR source = ANY ($2::text[]))
  AND (user_id = ANY ($1::text[]) OR previous_id = ANY ($1::text[]) OR (user_id IS NULL AND anonymous_id = ANY ($3::text[])))`;

const BY_THEN = "($5::bigint IS NULL OR received_at <= timestamp '1970-01-01' + $5::bigint * interval '1 millisecond')";

/** Delete the events of users, and of the anonymous ids that belong to them. */
async function forget(
  db: Database,
  users: readonly string[],
  sources: readonly string[] | null,
  until?: number,
): Promise<void> {
  const aliases = await db.patient<[string, string]>(
    `SELECT DISTINCT previous_id, user_id FROM rollcall.event WHERE type = 'alias' AND previous_id IS NOT NULL AND user_id IS NOT NULL`,
  );
  const ids = text([...personOf(users, aliases)]);
  const anonymous = await db.patient<[string]>(
    `SELECT id FROM (
       SELECT DISTINCT ON (id) id, user_id FROM ${EVENTS_SCHEMA}.identity_links ORDER BY id, "timestamp", received_at, message_id COLLATE "C"
     ) AS owned WHERE user_id = ANY ($1::text[])`,
    [ids],
  );
  const days = await db.patient<[string]>('SELECT DISTINCT day::text FROM rollcall.event ORDER BY 1');
  for (const [day] of days) {
    const values = [ids, sources && text(sources), text(anonymous, ([id]) => id), day, until ?? null];
    await db.patient(`DELETE FROM rollcall.event WHERE day = $4::date AND ${BY_THEN} AND ${THEIRS}`, values);
    failpoint('log_erased');
  }
}

async function userIds(db: Database): Promise<readonly string[]> {
  const rows = await db.patient<[string]>(
    `SELECT user_id FROM rollcall.event WHERE user_id IS NOT NULL
     UNION SELECT previous_id FROM rollcall.event WHERE previous_id IS NOT NULL`,
  );
  return rows.map(([id]) => id);
}

async function restored(db: Database): Promise<string | null> {
  const [row] = await db.rows<[string]>("SELECT value FROM rollcall.meta WHERE key = 'restored'");
  return row?.[0] ?? null;
}

async function summary(db: Database): ReturnType<TableLog['summary']> {
  const [[events, from, to] = [0, null, null]] = await db.patient<[number, string | null, string | null]>(
    'SELECT count(*), min(day)::text, max(day)::text FROM rollcall.event',
  );
  return { events, bytes: (await sizeOfDays(db)).bytes, from, to };
}
