import { MESSAGE_TYPES } from '../../message-types.ts';
import { raw, type Sql, sql } from '../sql.ts';
import { NOTICE } from '../states.ts';
import { aliasNeedles } from '../users.ts';
import type { Session } from './session.ts';

/** Rows looked at in one call, so that others wait no longer than that. */
const STEP = 20_000;
export const ALIAS = MESSAGE_TYPES.indexOf('alias');

/**
 * Where users leave traces. The log of attempts may go back less far than what is kept, and letters wait for a person. Letters
 * first: what is queued again meanwhile is found among the deliveries, and what is delivered behind them.
 */
const TRACES = [
  { table: 'dead_letter', isPosted: 'tries > 0', hasBody: true },
  { table: 'delivery', isPosted: 'tries > 0', hasBody: true },
  { table: 'delivered', isPosted: 'true', hasBody: true },
  { table: 'attempt', isPosted: 'true', hasBody: false },
] as const;

interface TracePage {
  readonly trace: (typeof TRACES)[number];
  /** The condition of its rows; null without any. */
  readonly range: Sql | null;
  /** The cursor behind it; null after the last. */
  readonly next: string | null;
}

/** The page of the traces that a cursor stands before. Tables are scanned by id: an index by user would cost every accept. */
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

/** That a row is about one of these users, of an alias the former id too, and no notice of a deletion. */
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
