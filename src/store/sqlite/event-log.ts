import { bodyWithout, type ErasedIds, idSets } from '../deleted-ids.ts';
import { type LogFile, type LogState, NO_DAY, type TailPart } from '../event-log.ts';
import { OVER } from '../live/source-states.ts';
import type { Fence } from '../port.ts';
import { checkFence } from '../records/fence.ts';
import type { Connection } from './connection.ts';
import { SqliteSession } from './session.ts';

/** Characters of bodies per page. */
const PAGE = 4_000_000;
const VERSION = 'event_log_version';
const LOST = 'event_log_lost';
/** Characters kept for the live computation at most. If it is further behind, it reads the files. */
const UNREAD = 64_000_000;
/** The same while a state is built or catches up: reading the files again would take as long again. */
const UNREAD_BY_BUILD = 1_000_000_000;
const DELETIONS = 'event_log_deletions';

/** Characters of a full row: readers take the tail row by row. */
const ENOUGH = 1_000_000;

/** Collects what accepts add to the tail: one row per source, whatever the number of messages. */
export class TailWriter {
  private readonly db: Connection;
  private readonly now: number;
  private readonly wall: number;
  private readonly bodies = new Map<number, string[]>();
  private characters = 0;

  /** @param wall - `now` by the wall clock */
  constructor(db: Connection, now: number, wall: number) {
    this.db = db;
    this.now = now;
    this.wall = wall;
  }

  get isFull(): boolean {
    return this.characters >= ENOUGH;
  }

  add(source: number, body: string): void {
    this.characters += body.length;
    const list = this.bodies.get(source);
    if (list) list.push(body);
    else this.bodies.set(source, [body]);
  }

  write(): void {
    for (const [source, list] of this.bodies) {
      const bodies = list.join('\n');
      this.db.run(
        'INSERT INTO event_tail (at, wall, source, events, bytes, bodies) VALUES (?, ?, ?, ?, ?, ?)',
        this.now,
        this.wall,
        source,
        list.length,
        bodies.length,
        bodies,
      );
    }
  }
}

export function eventState(db: Connection): LogState {
  const files = db.tuples<[string, string, string, number, number]>(
    'SELECT name, source, day, events, bytes FROM event_file ORDER BY day, name',
  );
  const [[events, bytes, since, last] = [0, 0, null, 0]] = db.tuples<[number, number, number | null, number]>(
    'SELECT coalesce(sum(events), 0), coalesce(sum(bytes), 0), min(at), coalesce(max(id), 0) FROM event_tail',
  );
  const [[newest] = [0]] = db.tuples<[number]>("SELECT seq FROM sqlite_sequence WHERE name = 'event_tail'");
  return {
    version: Number(db.meta(VERSION)),
    files: files.map(([name, source, day, count, size]) => ({ name, source, day, events: count, bytes: size })),
    tail: { events, bytes, since, last, newest },
  };
}

/** The longest time between receiving a message and accepting it, in milliseconds. */
const IN_BETWEEN = 600_000;
const DAY = 86_400_000;

export function eventFirstDay(db: Connection): number {
  const [[day] = [null]] = db.tuples<[string | null]>('SELECT min(day) FROM event_file');
  const [[wall] = [null]] = db.tuples<[number | null]>('SELECT min(wall) FROM event_tail');
  const days = [day === null ? null : Date.parse(day), wall === null ? null : wall - IN_BETWEEN];
  return days.reduce<number>((first, at) => (at === null ? first : Math.min(first, Math.floor(at / DAY))), NO_DAY);
}

export function eventTail(db: Connection, _now: number, after: number, upTo: number): TailPart[] {
  let room = PAGE;
  let last = after;
  for (const [id, bytes] of db.tuples<[number, number]>(
    'SELECT id, bytes FROM event_tail WHERE id > ? AND id <= ? ORDER BY id LIMIT 20000',
    after,
    upTo,
  )) {
    if (last !== after && bytes > room) break;
    room -= bytes;
    last = id;
  }
  const rows = db.tuples<[number, number, string]>(
    'SELECT id, source, bodies FROM event_tail WHERE id > ? AND id <= ? ORDER BY id',
    after,
    last,
  );
  return rows.map(([id, source, bodies]) => ({ id, source: db.name(source), bodies }));
}

export async function willWrite(db: Connection, now: number, fence: Fence, names: readonly string[]): Promise<void> {
  await check(db, now, fence);
  for (const name of names) db.run('INSERT OR REPLACE INTO event_leftover VALUES (?, ?)', name, now);
}

export async function seal(
  db: Connection,
  now: number,
  fence: Fence,
  upTo: number,
  files: readonly LogFile[],
): Promise<void> {
  await check(db, now, fence);
  keepUnread(db, upTo);
  db.run('DELETE FROM event_tail WHERE id <= ?', upTo);
  add(db, files);
}

/** Keep the parts that leave the tail before the live computation has read them. */
function keepUnread(db: Connection, upTo: number): void {
  const [[read, builds] = [null, 0]] = db.tuples<[number | null, number]>(
    'SELECT min(CAST(position AS INTEGER)), count(*) FILTER (WHERE serving = 0) FROM live_source WHERE building <> ?',
    OVER,
  );
  db.run('DELETE FROM event_unread WHERE id <= ?', read ?? upTo);
  if (read !== null && read >= upTo) return;
  const [[bytes] = [0]] = db.tuples<[number]>(
    `SELECT coalesce(sum(bytes), 0) FROM (
       SELECT length(bodies) AS bytes FROM event_unread UNION ALL SELECT bytes FROM event_tail WHERE id > ? AND id <= ?)`,
    read ?? upTo,
    upTo,
  );
  if (read === null || bytes > (builds > 0 ? UNREAD_BY_BUILD : UNREAD)) {
    db.run('DELETE FROM event_unread');
    db.setMeta(LOST, String(upTo));
    return;
  }
  db.run('INSERT INTO event_unread SELECT id, source, bodies FROM event_tail WHERE id > ? AND id <= ?', read, upTo);
}

export function eventUnread(db: Connection, _now: number, after: number) {
  const lost = Number(db.meta(LOST) ?? 0);
  let room = PAGE;
  const parts: TailPart[] = [];
  for (const [id, source, bodies] of db.tuples<[number, number, string]>(
    `SELECT id, source, bodies FROM (
       SELECT id, source, bodies FROM event_unread WHERE id > ?1 UNION ALL SELECT id, source, bodies FROM event_tail WHERE id > ?1
     ) ORDER BY id LIMIT 200`,
    after,
  )) {
    if (parts.length > 0 && bodies.length > room) break;
    room -= bodies.length;
    parts.push({ id, source: db.name(source), bodies });
  }
  return { parts, lost };
}

export function forgetUnread(db: Connection, _now: number, ids: ErasedIds, sources: readonly string[] | null): void {
  const gone = idSets(ids);
  for (const [id] of db.tuples<[number]>('SELECT id FROM event_unread')) {
    const [[source, bodies] = [0, '']] = db.tuples<[number, string]>(
      'SELECT source, bodies FROM event_unread WHERE id = ?',
      id,
    );
    if (sources && !sources.includes(db.name(source))) continue;
    const lines = bodies.split('\n');
    const left = lines.flatMap((body) => bodyWithout(body, gone) ?? []);
    if (left.length === 0) db.run('DELETE FROM event_unread WHERE id = ?', id);
    else if (left.join('\n') !== bodies) db.run('UPDATE event_unread SET bodies = ? WHERE id = ?', left.join('\n'), id);
  }
}

export function tailNames(db: Connection, _now: number, ids: ErasedIds): boolean {
  const gone = idSets(ids);
  return db
    .tuples<[string]>('SELECT bodies FROM event_tail')
    .some(([bodies]) => bodies.split('\n').some((body) => bodyWithout(body, gone) !== body));
}

export async function replaceFiles(
  db: Connection,
  now: number,
  fence: Fence,
  gone: readonly string[],
  files: readonly LogFile[],
): Promise<void> {
  await check(db, now, fence);
  for (const name of gone) {
    if (db.run('DELETE FROM event_file WHERE name = ?', name) > 0)
      db.run('INSERT OR REPLACE INTO event_leftover VALUES (?, ?)', name, now);
  }
  add(db, files);
}

export function leftovers(db: Connection): { readonly name: string; readonly since: number }[] {
  const rows = db.tuples<[string, number]>('SELECT name, since FROM event_leftover ORDER BY since');
  return rows.map(([name, since]) => ({ name, since }));
}

export function removed(db: Connection, _now: number, names: readonly string[]): void {
  for (const name of names) db.run('DELETE FROM event_leftover WHERE name = ?', name);
}

export function deletionsInLog(db: Connection): number {
  return Number(db.meta(DELETIONS) ?? 0);
}

export function deletedInLog(db: Connection, _now: number, last: number): void {
  db.setMeta(DELETIONS, String(last));
}

function add(db: Connection, files: readonly LogFile[]): void {
  for (const { name, source, day, events, bytes } of files) {
    db.run('INSERT INTO event_file VALUES (?, ?, ?, ?, ?)', name, source, day, events, bytes);
    db.run('DELETE FROM event_leftover WHERE name = ?', name);
  }
  db.setMeta(VERSION, String(Number(db.meta(VERSION)) + 1));
}

function check(db: Connection, now: number, fence: Fence): Promise<void> {
  return checkFence(new SqliteSession(db, now), fence);
}
