import { failpoint } from '../../../kernel/failpoint.ts';
import type { ErasedIds, IdentityLinks } from '../../deleted-ids.ts';
import type { SeenRow, TableLog } from '../../event-log.ts';
import { erasingSql, linkQueries, usesOf } from '../../events/erasing.ts';
import { POSTGRES_SEEN } from '../../events/seen.ts';
import { text } from '../arrays.ts';
import type { StoreContext } from '../context.ts';
import type { Database } from '../database.ts';
import { dropDays, firstDay, prepareDays, sizeOfDays } from './event-days.ts';
import { eventsSince, scanEvents } from './event-reading.ts';
import { countEvents, groupsBetween, rowsOfDay, selectEvents } from './event-selection.ts';
import { EVENTS_SCHEMA } from './event-writing.ts';

/** @param during - runs work that closing waits for */
export function tableLog({ db, url }: StoreContext, during: <T>(work: () => Promise<T>) => Promise<T>): TableLog {
  return {
    kind: 'table',
    firstDay: () => during(() => firstDay(db)),
    prepare: (now, keep) => during(() => prepareDays(db, now, keep)),
    dropBefore: (day) => during(() => dropDays(db, day)),
    since: (place, now) => during(() => eventsSince(db, place, now)),
    select: (...given) => during(() => selectEvents(db, ...given)),
    groups: (...given) => during(() => groupsBetween(db, ...given)),
    rows: (...given) => during(() => rowsOfDay(db, ...given)),
    count: (...given) => during(() => countEvents(db, ...given)),
    scan: (wanted, now, signal, ...given) => during(() => scanEvents({ url, now, signal }, wanted, ...given)),
    forget: (ids, sources, until) => during(() => forget(db, ids, sources, until)),
    links: linksIn(db, during),
    names: (ids) => during(() => names(db, ids)),
    ids: () => during(() => allIds(db)),
    restored: () => during(() => restored(db)),
    summary: () => during(() => summary(db)),
    seen: () => during(() => db.patient<SeenRow>(POSTGRES_SEEN('rollcall.event'))),
    size: () => during(() => sizeOfDays(db)),
  };
}

const { isGone, losesId } = erasingSql((column, role) => `${column} = ANY ($${role === 'users' ? 1 : 2}::text[])`);
const IN_SCOPE = `day = $4::date AND ($3::text[] IS NULL OR source = ANY ($3::text[]))
  AND ($5::bigint IS NULL OR received_at <= timestamp '1970-01-01' + $5::bigint * interval '1 millisecond')`;
const FORGET = `DELETE FROM rollcall.event WHERE ${IN_SCOPE} AND ${isGone}`;
const LOSE_IDS = `UPDATE rollcall.event SET anonymous_id = NULL WHERE ${IN_SCOPE} AND ${losesId}`;

async function forget(
  db: Database,
  { users, anonymous }: ErasedIds,
  sources: readonly string[] | null,
  until?: number,
): Promise<void> {
  const days = await db.patient<[string]>('SELECT DISTINCT day::text FROM rollcall.event ORDER BY 1');
  for (const [day] of days) {
    const values = [text(users), text(anonymous), sources && text(sources), day, until ?? null];
    for (const statement of [FORGET, LOSE_IDS]) await db.patient(statement, values);
    failpoint('log_erased');
  }
}

const LINKS = linkQueries(`${EVENTS_SCHEMA}.events`, ' COLLATE "C"', (column) => `${column} = ANY ($1::text[])`);

function linksIn(db: Database, during: <T>(work: () => Promise<T>) => Promise<T>): IdentityLinks {
  const asked = <T extends readonly unknown[]>(query: string, ids?: readonly string[]) =>
    during(() => db.patient<T>(query, ids && [text(ids)]));
  return {
    aliases: () => asked(LINKS.aliases),
    owners: (ids) => asked(LINKS.owners, ids),
    uses: async (ids) => usesOf(await asked(LINKS.uses, ids)),
  };
}

/** The database's clock may be ahead of those of the processes. */
const NEWEST = 'least(current_date, (SELECT day FROM rollcall.event ORDER BY seq DESC LIMIT 1))';
const NAMES = `SELECT 1 FROM rollcall.event WHERE day >= ${NEWEST} - 2 AND (${isGone} OR ${losesId}) LIMIT 1`;

async function names(db: Database, { users, anonymous }: ErasedIds): Promise<boolean> {
  return (await db.patient(NAMES, [text(users), text(anonymous)])).length > 0;
}

async function allIds(db: Database): Promise<ErasedIds> {
  const ids = async (column: string) => {
    const of = (name: string) => `SELECT ${name} FROM rollcall.event WHERE ${name} IS NOT NULL`;
    return (await db.patient<[string]>(`${of(column)} UNION ${of('previous_id')}`)).map(([id]) => id);
  };
  return { users: await ids('user_id'), anonymous: await ids('anonymous_id') };
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
