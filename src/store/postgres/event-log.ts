import { failpoint } from '../../failpoint.ts';
import { dayOf } from '../../timestamp.ts';
import { NO_DAY, type TableLog } from '../event-log.ts';
import { PROMOTED } from '../events/columns.ts';
import { personOf } from '../events/person.ts';
import { readable } from '../events/readable.ts';
import { EVENT_COLUMNS, POSTGRES_VIEWS, eventViews as viewsOf } from '../events/views.ts';
import type { NewMessage } from '../port.ts';
import { columns, text, uuid } from './arrays.ts';
import type { Context } from './context.ts';
import { eventsSince, scanEvents } from './event-reading.ts';

/** The views are in a schema of their own, since `users` and the like are names that others have too. */
const SCHEMA = 'rollcall_events';
const DAY = 86_400_000;
/** Days that there are parts for before they begin: so long may it last until a process prepares more. */
const AHEAD = 7;
/** For how long a change of the parts may keep accepts waiting while it waits for a query itself. */
const LOCK_WAIT = '1s';
/** Longest statement that moves or deletes many events, in milliseconds. */
const PATIENCE = 600_000;

/** Statements that make the views, harmless when repeated. */
export function eventViews(): readonly string[] {
  const events = `SELECT ${EVENT_COLUMNS.map((column) => `"${column}"`).join(', ')} FROM rollcall.event`;
  const views = [{ name: 'events', query: () => events }, ...viewsOf(POSTGRES_VIEWS)];
  return views.map(
    ({ name, query }) => `CREATE OR REPLACE VIEW ${SCHEMA}.${name} AS ${query((other) => `${SCHEMA}.${other}`)}`,
  );
}

/**
 * A statement that writes what `logColumns` has, from parameter `first` on. Times beyond what Postgres knows are no times to
 * compute with: the far future becomes the time of receipt, as all that is later.
 */
export function logSql(first: number, condition = 'true'): string {
  return `
  INSERT INTO rollcall.event
  SELECT CAST(at AS date), at,
    CASE WHEN said LIKE '+%' THEN at WHEN said LIKE '-%' OR said LIKE '0000%' THEN TIMESTAMP '0001-01-01'
      ELSE least(CAST(said AS timestamp), at) END,
    source, body ->> 'messageId', body ->> 'type', CASE WHEN body ->> 'type' = 'track' THEN body ->> 'event' END,
    coalesce(body ->> 'userId', body ->> 'User ID'), body ->> 'anonymousId', body ->> 'Previous ID', body ->> 'groupId',
    body ->> 'name', body -> 'properties', body -> 'traits', body -> 'context',
    nullif(body - '{${PROMOTED.map((key) => `"${key}"`).join(',')}}'::text[], '{}')
  FROM (
    SELECT l.source, l.body, CAST(l.body ->> 'receivedAt' AS timestamp) AS at, l.body ->> 'timestamp' AS said
    FROM (
      SELECT seen, source, CAST(body AS jsonb) AS body
      FROM (${columns(first, { seen: 'uuid', source: 'text', body: 'text' })}) AS c OFFSET 0
    ) AS l WHERE ${condition}
  ) AS e`;
}

/** Messages as `logSql` takes them. */
export function logColumns(messages: readonly { readonly key: string; readonly message: NewMessage }[]): Buffer[] {
  return [
    uuid(messages, ({ key }) => key),
    text(messages, ({ message }) => message.source),
    text(messages, ({ message }) => readable(message.body)),
  ];
}

const THEIRS = `($2::text[] IS NULL OR source = ANY ($2::text[]))
  AND (user_id = ANY ($1::text[]) OR previous_id = ANY ($1::text[]) OR (user_id IS NULL AND anonymous_id = ANY ($3::text[])))`;

const BY_THEN = "($5::bigint IS NULL OR received_at <= timestamp '1970-01-01' + $5::bigint * interval '1 millisecond')";

/** @param during - has closing wait for what is begun */
export function tableLog({ db, url }: Context, during: <T>(work: () => Promise<T>) => Promise<T>): TableLog {
  /** Changes of the parts want the table for themselves: they give up rather than keep others waiting. */
  async function alter(...statements: readonly string[]): Promise<void> {
    await db.transaction(async (session) => {
      await session.run(`SET LOCAL lock_timeout = '${LOCK_WAIT}'`);
      await session.run(`SET LOCAL statement_timeout = ${PATIENCE}`);
      for (const statement of statements) {
        await session.rows(statement, [], PATIENCE);
        failpoint('log_altered');
      }
    });
    failpoint('log_altered');
  }

  async function parts(): Promise<{ readonly name: string; readonly day: string }[]> {
    const rows = await db.rows<[string]>(
      `SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
       WHERE i.inhparent = 'rollcall.event'::regclass AND c.relname ~ '^event_\\d{8}$' ORDER BY 1`,
    );
    return rows.map(([name]) => ({ name, day: `${name.slice(6, 10)}-${name.slice(10, 12)}-${name.slice(12)}` }));
  }

  /** Also for days that came when nobody had made a part for them, as after a restore. */
  async function prepare(now: number): Promise<void> {
    const known = new Set((await parts()).map(({ day }) => day));
    const strays = await db.patient<[string]>('SELECT DISTINCT day::text FROM rollcall.event_other');
    const coming = Array.from({ length: AHEAD + 1 }, (_, ahead) => dayOf(now + ahead * DAY));
    for (const day of new Set([...coming, ...strays.map(([day]) => day)])) {
      if (known.has(day) || !/^\d{4}-/.test(day)) continue;
      const part = `rollcall.event_${day.replaceAll('-', '')}`;
      const next = dayOf(Date.parse(day) + DAY);
      await alter(
        // The whole of it: who waits for a part only has chosen the part already.
        'LOCK TABLE rollcall.event IN SHARE ROW EXCLUSIVE MODE',
        `CREATE TABLE ${part} (LIKE rollcall.event)`,
        `WITH moved AS (DELETE FROM rollcall.event_other WHERE day = '${day}' RETURNING *) INSERT INTO ${part} SELECT * FROM moved`,
        `ALTER TABLE rollcall.event ATTACH PARTITION ${part} FOR VALUES FROM ('${day}') TO ('${next}')`,
      );
    }
  }

  /** Of the parts, whether or not they have events: only what was in those that are gone is forgotten. */
  async function firstDay(): Promise<number> {
    const [[first, stray] = [null, null]] = await db.rows<[string | null, string | null]>(
      `SELECT min(substring(c.relname from '\\d{8}$')), (SELECT min(day)::text FROM rollcall.event_other)
       FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
       WHERE i.inhparent = 'rollcall.event'::regclass AND c.relname ~ '^event_\\d{8}$'`,
    );
    const days = [first && `${first.slice(0, 4)}-${first.slice(4, 6)}-${first.slice(6)}`, stray];
    return days.reduce((least, day) => (day === null ? least : Math.min(least, Date.parse(day) / DAY)), NO_DAY);
  }

  async function dropBefore(before: string): Promise<void> {
    for (const { name, day } of await parts()) if (day < before) await alter(`DROP TABLE rollcall.${name}`);
    await db.patient('DELETE FROM rollcall.event_other WHERE day < $1::date', [before]);
  }

  async function forget(users: readonly string[], sources: readonly string[] | null, until?: number): Promise<void> {
    const aliases = await db.patient<[string, string]>(
      `SELECT DISTINCT previous_id, user_id FROM rollcall.event WHERE type = 'alias' AND previous_id IS NOT NULL AND user_id IS NOT NULL`,
    );
    const ids = text([...personOf(users, aliases)]);
    const anonymous = await db.patient<[string]>(
      `SELECT id FROM (
         SELECT DISTINCT ON (id) id, user_id FROM ${SCHEMA}.identity_links ORDER BY id, "timestamp", received_at, message_id COLLATE "C"
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

  async function size(): Promise<{ readonly bytes: number; readonly parts: number }> {
    const [[bytes, parts] = [0, 0]] = await db.rows<[number, number]>(
      `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint, count(*) FILTER (WHERE c.relname ~ '^event_\\d{8}$')
       FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'rollcall.event'::regclass`,
    );
    return { bytes, parts };
  }

  return {
    kind: 'table',
    firstDay: () => during(firstDay),
    prepare: (now) => during(() => prepare(now)),
    dropBefore: (day) => during(() => dropBefore(day)),
    since: (place, now) => during(() => eventsSince(db, place, now)),
    scan: (...given) => during(() => scanEvents(url, ...given)),
    forget: (users, sources, until) => during(() => forget(users, sources, until)),
    userIds: () =>
      during(async () => {
        const rows = await db.patient<[string]>(
          `SELECT user_id FROM rollcall.event WHERE user_id IS NOT NULL
           UNION SELECT previous_id FROM rollcall.event WHERE previous_id IS NOT NULL`,
        );
        return rows.map(([id]) => id);
      }),
    restored: () =>
      during(async () => {
        const [row] = await db.rows<[string]>("SELECT value FROM rollcall.meta WHERE key = 'restored'");
        return row?.[0] ?? null;
      }),
    summary: () =>
      during(async () => {
        const [[events, from, to] = [0, null, null]] = await db.patient<[number, string | null, string | null]>(
          'SELECT count(*), min(day)::text, max(day)::text FROM rollcall.event',
        );
        return { events, bytes: (await size()).bytes, from, to };
      }),
    size: () => during(size),
  };
}
