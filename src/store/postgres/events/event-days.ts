import { failpoint } from '../../../kernel/failpoint.ts';
import { dayOf } from '../../../kernel/timestamp.ts';
import { NO_DAY } from '../../event-log.ts';
import { type Database, type DatabaseSession, PATIENCE } from '../database.ts';

const DAY = 86_400_000;
/** Days ahead for which partitions exist, so that it may take this long until a process prepares more. */
const AHEAD = 7;
/** Longest time that a change of partitions may block accepts while it waits for a query. */
const LOCK_WAIT = '1s';

const PARTITIONS = `pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'rollcall.event'::regclass`;
const IS_DAY = "c.relname ~ '^event_\\d{8}$'";

interface Partition {
  readonly name: string;
  /** YYYY-MM-DD. */
  readonly day: string;
}

async function readPartitions(db: Database): Promise<Partition[]> {
  const rows = await db.rows<[string]>(`SELECT c.relname FROM ${PARTITIONS} AND ${IS_DAY} ORDER BY 1`);
  return rows.map(([name]) => ({ name, day: dashed(name.slice('event_'.length)) }));
}

const dashed = (day: string) => `${day.slice(0, 4)}-${day.slice(4, 6)}-${day.slice(6)}`;

/** Change partitions. The change locks the whole table, so it gives up rather than keep others waiting. */
async function alter(db: Database, work: (session: DatabaseSession) => Promise<void>): Promise<void> {
  await db.transaction(async (session) => {
    const run: DatabaseSession['run'] = async (statement) => {
      const changed = await session.run(statement);
      failpoint('log_altered');
      return changed;
    };
    await session.run(`SET LOCAL lock_timeout = '${LOCK_WAIT}'`);
    await work({ ...session, run });
  }, PATIENCE);
  failpoint('log_altered');
}

/** Create partitions for coming days, and for days whose events arrived when there was none, as after a restore. */
export async function prepareDays(db: Database, now: number, keep: number): Promise<void> {
  await db.run(
    `INSERT INTO rollcall.meta (key, value) VALUES ('event_log_keep', '${keep}')
     ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
  );
  const known = new Set((await readPartitions(db)).map(({ day }) => day));
  const strays = await db.patient<[string]>('SELECT DISTINCT day::text FROM rollcall.event_other');
  const coming = Array.from({ length: AHEAD + 1 }, (_, ahead) => dayOf(now + ahead * DAY));
  for (const day of new Set([...coming, ...strays.map(([day]) => day)])) {
    if (known.has(day) || !/^\d{4}-/.test(day)) continue;
    const partition = `rollcall.event_${day.replaceAll('-', '')}`;
    const next = dayOf(Date.parse(day) + DAY);
    await alter(db, async (session) => {
      // Lock all of it: a statement that waits for one partition has listed the partitions already, and would miss rows.
      await session.run('LOCK TABLE rollcall.event');
      const [[made] = []] = await session.rows<[string | null]>('SELECT to_regclass($1)::text', [partition]);
      // Created by another process while this one waited.
      if (made) return;
      await session.run(`CREATE TABLE ${partition} (LIKE rollcall.event)`);
      await session.run(
        `WITH moved AS (DELETE FROM rollcall.event_other WHERE day = '${day}' RETURNING *) INSERT INTO ${partition} SELECT * FROM moved`,
      );
      await session.run(
        `ALTER TABLE rollcall.event ATTACH PARTITION ${partition} FOR VALUES FROM ('${day}') TO ('${next}')`,
      );
    });
  }
}

/** Return the first day of which nothing was forgotten: that of the first partition, even if it is empty. */
export async function firstDay(db: Database): Promise<number> {
  const [[first, stray] = [null, null]] = await db.rows<[string | null, string | null]>(
    `SELECT min(substring(c.relname from '\\d{8}$')), (SELECT min(day)::text FROM rollcall.event_other)
     FROM ${PARTITIONS} AND ${IS_DAY}`,
  );
  const days = [first && dashed(first), stray];
  return days.reduce((least, day) => (day === null ? least : Math.min(least, Date.parse(day) / DAY)), NO_DAY);
}

export async function dropDays(db: Database, before: string): Promise<void> {
  for (const { name, day } of await readPartitions(db)) {
    if (day >= before) continue;
    await alter(db, async (session) => {
      // Lock before looking up the partition, which another process may be dropping.
      await session.run('LOCK TABLE ONLY rollcall.event');
      await session.run(`DROP TABLE IF EXISTS rollcall.${name}`);
    });
  }
  await db.patient('DELETE FROM rollcall.event_other WHERE day < $1::date', [before]);
}

export async function sizeOfDays(db: Database): Promise<{ readonly bytes: number; readonly partitions: number }> {
  const [[bytes, partitions] = [0, 0]] = await db.rows<[number, number]>(
    `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint, count(*) FILTER (WHERE ${IS_DAY}) FROM ${PARTITIONS}`,
  );
  return { bytes, partitions };
}
