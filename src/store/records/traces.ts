import { MESSAGE_TYPES } from '../../message-types.ts';
import type { ErasedIds } from '../deleted-ids.ts';
import type { SaidIds, SaidIdsPage } from '../port.ts';
import { join, raw, type Sql, sql } from '../sql.ts';
import { NOTICE } from '../states.ts';
import { aliasNeedles, anonymousNeedles, textForms } from '../users.ts';
import type { Session } from './session.ts';

/** Rows scanned in one call, which bounds how long others wait. */
const STEP = 20_000;
/** Rows whose text is searched, times the ids searched for. */
const SEARCHED = 2_000_000;
/** Bodies may have 32 KB each, and those found are in memory together. */
const BODIES = 4_000;
export const ALIAS = MESSAGE_TYPES.indexOf('alias');

/**
 * Tables with traces of users. The attempt log may not reach as far back as kept messages, and letters wait for a
 * person. Letters go first: those requeued during the scan are then found as deliveries, and delivered ones after that.
 */
const TRACES = [
  { table: 'dead_letter', isPosted: 'tries > 0', hasBody: true, delivery: 'id' },
  { table: 'delivery', isPosted: 'tries > 0', hasBody: true, delivery: 'id' },
  { table: 'delivered', isPosted: 'true', hasBody: true, delivery: 'delivery' },
  { table: 'attempt', isPosted: 'true', hasBody: false, delivery: 'delivery' },
] as const;

export type Trace = (typeof TRACES)[number];

interface TracePage {
  readonly trace: Trace;
  /** Condition for the page's rows; null if there are none. */
  readonly range: Sql | null;
  /** Cursor after the page; null after the last. */
  readonly next: string | null;
}

/**
 * The page after a cursor. Tables are scanned by id, since an index by user would slow every accept.
 *
 * @param searched - the number of ids for which texts are searched
 */
export async function pageOf({ rows }: Session, cursor: string | null, searched = 0): Promise<TracePage> {
  const [table, from = '0'] = cursor?.split(':') ?? [];
  const index = Math.max(
    0,
    TRACES.findIndex((each) => each.table === table),
  );
  const trace = TRACES[index] ?? TRACES[0];
  const step = searched === 0 ? STEP : Math.max(100, Math.min(BODIES, Math.floor(SEARCHED / searched)));
  const [page] = await rows<[number | null, number]>(sql`SELECT max(id), count(*) FROM (
    SELECT id FROM rollcall.${raw(trace.table)} WHERE id > ${Number(from)} ORDER BY id LIMIT ${step}) AS page`);
  const [end = null, count = 0] = page ?? [];
  const following = TRACES[index + 1]?.table;
  const next = count === step ? `${trace.table}:${end}` : following === undefined ? null : `${following}:0`;
  return { trace, range: end === null ? null : sql`id > ${Number(from)} AND id <= ${end}`, next };
}

/** Condition: a row is about one of these users (or an alias's former id) and is no deletion notice. */
export function ofUsers(
  session: Session,
  hasBody: boolean,
  users: readonly string[],
  sources: readonly string[] | null,
): Sql {
  const isFormer = sql`OR (type = ${ALIAS} AND ${containsOne(session, raw('body'), aliasNeedles(users))})`;
  return sql`(${session.dialect.oneOf(raw('user_id'), 'text', users)} ${hasBody ? isFormer : raw('')})
    AND ${inScope(session, sources)}`;
}

export function inScope({ dialect }: Session, sources: readonly string[] | null): Sql {
  const isTheirs = sources === null ? raw('true') : dialect.oneOf(dialect.nameOf(raw('source')), 'text', sources);
  return sql`type <> ${NOTICE} AND ${isTheirs}`;
}

/** Condition: a body seems to name one of these ids other than as its user. Parsing it is exact. */
export function mayName(session: Session, { users, anonymous }: ErasedIds): Sql {
  return containsOne(session, raw('body'), [...aliasNeedles(users), ...anonymousNeedles(anonymous)]);
}

/** Condition: a text names one of these users. */
export const namesAny = (session: Session, text: Sql, users: readonly string[]): Sql =>
  containsOne(session, text, textForms(users));

function containsOne({ dialect }: Session, text: Sql, parts: readonly string[]): Sql {
  return sql`EXISTS (SELECT 1 FROM ${dialect.rowsOf('text', parts)} WHERE ${dialect.contains(text, raw('list.value'))})`;
}

/** The ids in messages that name one of these, or in all aliases if null; a page at a time. */
export async function saidIds(
  session: Session,
  ids: readonly string[] | null,
  cursor: string | null,
): Promise<SaidIdsPage> {
  const { rows, dialect } = session;
  const { trace, range, next } = await pageOf(session, cursor, ids?.length);
  if (!trace.hasBody) return { cursor: null, said: [] };
  const isWanted =
    ids === null
      ? sql`type = ${ALIAS}`
      : sql`(${dialect.oneOf(raw('user_id'), 'text', ids)} OR ${mayName(session, { users: ids, anonymous: ids })})`;
  const found =
    range === null
      ? []
      : await rows<[source: string, body: string]>(sql`SELECT ${dialect.nameOf(raw('source'))}, body
          FROM rollcall.${raw(trace.table)} WHERE ${join([range, inScope(session, null), isWanted], ' AND ')}`);
  return { cursor: next, said: found.map(([source, body]) => idsSaid(source, body)) };
}

function idsSaid(source: string, body: string): SaidIds {
  const said = JSON.parse(body) as Record<string, string | undefined>;
  const { type = '', messageId = '', anonymousId = null } = said;
  return {
    ...{ source, type, messageId, anonymousId },
    userId: said['userId'] ?? said['User ID'] ?? null,
    previousId: said['Previous ID'] ?? null,
    timestamp: Date.parse(said['timestamp'] ?? ''),
    receivedAt: Date.parse(said['receivedAt'] ?? ''),
  };
}
