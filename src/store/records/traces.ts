import { MESSAGE_TYPES } from '../../message-types.ts';
import { raw, type Sql, sql } from '../sql.ts';
import { NOTICE } from '../states.ts';
import { aliasNeedles, textForms } from '../users.ts';
import type { Session } from './session.ts';

/** Rows scanned in one call, which bounds how long others wait. */
const STEP = 20_000;
export const ALIAS = MESSAGE_TYPES.indexOf('alias');

/**
 * Tables with traces of users. The attempt log may not reach as far back as kept messages, and letters wait for a
 * person. Letters go first: those requeued during the scan are then found as deliveries, and delivered ones after that.
 */
const TRACES = [
  { table: 'dead_letter', isPosted: 'tries > 0', hasBody: true },
  { table: 'delivery', isPosted: 'tries > 0', hasBody: true },
  { table: 'delivered', isPosted: 'true', hasBody: true },
  { table: 'attempt', isPosted: 'true', hasBody: false },
] as const;

interface TracePage {
  readonly trace: (typeof TRACES)[number];
  /** Condition for the page's rows; null if there are none. */
  readonly range: Sql | null;
  /** Cursor after the page; null after the last. */
  readonly next: string | null;
}

/** The page after a cursor. Tables are scanned by id, since an index by user would slow every accept. */
export async function pageOf({ rows }: Session, cursor: string | null): Promise<TracePage> {
  const [table, from = '0'] = cursor?.split(':') ?? [];
  const index = Math.max(
    0,
    TRACES.findIndex((each) => each.table === table),
  );
  const trace = TRACES[index] ?? TRACES[0];
  const [page] = await rows<[number | null, number]>(sql`SELECT max(id), count(*) FROM (
    SELECT id FROM rollcall.${raw(trace.table)} WHERE id > ${Number(from)} ORDER BY id LIMIT ${STEP}) AS page`);
  const [end = null, count = 0] = page ?? [];
  const following = TRACES[index + 1]?.table;
  const next = count === STEP ? `${trace.table}:${end}` : following === undefined ? null : `${following}:0`;
  return { trace, range: end === null ? null : sql`id > ${Number(from)} AND id <= ${end}`, next };
}

/** Condition: a row is about one of these users (or an alias's former id) and is no deletion notice. */
export function ofUsers(
  { dialect }: Session,
  hasBody: boolean,
  users: readonly string[],
  sources: readonly string[] | null,
): Sql {
  const isFormer = sql`OR (type = ${ALIAS} AND EXISTS (
    SELECT 1 FROM ${dialect.rowsOf('text', aliasNeedles(users))} WHERE ${dialect.contains(raw('body'), raw('list.value'))}))`;
  return sql`type <> ${NOTICE} AND (${dialect.oneOf(raw('user_id'), 'text', users)} ${hasBody ? isFormer : raw('')})
    ${sources ? sql`AND ${dialect.oneOf(dialect.nameOf(raw('source')), 'text', sources)}` : raw('')}`;
}

/** Condition: a text names one of these users. */
export function namesAny({ dialect }: Session, text: Sql, users: readonly string[]): Sql {
  return sql`EXISTS (SELECT 1 FROM ${dialect.rowsOf('text', textForms(users))}
    WHERE ${dialect.contains(text, raw('list.value'))})`;
}
