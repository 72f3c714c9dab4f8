import { MESSAGE_TYPES } from '../../message-types.ts';
import { aliasNeedles } from '../alias.ts';
import { CLAIMED } from '../states.ts';
import { text } from './arrays.ts';
import type { Context } from './context.ts';
import { counting, HELD_OUT_ONES, QUEUED_ONES, UNTRIED_ONES } from './counters.ts';

/** Rows looked at in one statement, so that others get their turn. */
const ERASE_STEP = 20_000;
/** Letters first: what is queued again meanwhile is found among the deliveries. */
const TABLES = ['dead_letter', 'delivery', 'delivered', 'attempt'] as const;
const NOTICE = MESSAGE_TYPES.indexOf('delete');
const ALIAS = MESSAGE_TYPES.indexOf('alias');
const IN_PART = `id > $1 AND id <= $2 AND type <> ${NOTICE} AND ($5::text[] IS NULL OR source = ANY ($5::text[]))`;
/** Of an alias either id counts; $6 is what its body holds of a former id. */
const IS_FORMER = (needles: string) =>
  `type = ${ALIAS} AND EXISTS (SELECT 1 FROM unnest(${needles}::text[]) AS f WHERE strpos(body, f) > 0)`;
const IS_THEIRS = `${IN_PART} AND (user_id = ANY ($3::text[]) OR ${IS_FORMER('$6')})`;

/** Each answers with the number of deliveries that are being posted and so were left. */
const eraseSql = (now: string) => ({
  attempt: `
    WITH gone AS (DELETE FROM rollcall.attempt WHERE ${IN_PART} AND user_id = ANY ($3::text[])
      AND $4::bigint IS NOT NULL AND $6::text[] IS NOT NULL) SELECT 0`,
  delivered: `
    WITH gone AS (DELETE FROM rollcall.delivered WHERE ${IS_THEIRS} AND $4::bigint IS NOT NULL) SELECT 0`,
  dead_letter: `
    WITH gone AS (DELETE FROM rollcall.dead_letter WHERE ${IS_THEIRS} RETURNING destination, run, reason),
    ${counting(now, '$4::bigint', 'gone', {
      dead: '-count(*)',
      heldOut: `-${HELD_OUT_ONES}`,
      untried: `-${HELD_OUT_ONES}`,
      superseded: HELD_OUT_ONES,
    })}
    SELECT 0`,
  // Locked first: what is claimed or given back at this very moment is either erased or counted, never neither.
  delivery: `
    WITH theirs AS (SELECT id, state FROM rollcall.delivery WHERE ${IS_THEIRS} FOR UPDATE),
    gone AS (
      DELETE FROM rollcall.delivery WHERE id IN (SELECT id FROM theirs WHERE state <> ${CLAIMED})
      RETURNING destination, run, tries, rank
    ), ${counting(now, '$4::bigint', 'gone', {
      pending: '-count(*)',
      queued: `-${QUEUED_ONES}`,
      untried: `-${UNTRIED_ONES}`,
      superseded: 'count(*)',
    })}
    SELECT count(*) FROM theirs WHERE state = ${CLAIMED}`,
});

/** Tables are scanned by id: deletions are rare, and an index by user would cost every accept. */
export async function erase(
  { db, parts }: Context,
  users: readonly string[],
  sources: readonly string[] | null,
  cursor: string | null,
): Promise<{ readonly cursor: string | null; readonly inFlight: number }> {
  const [given = 'dead_letter', from = '0'] = cursor?.split(':') ?? [];
  const phase = (TABLES as readonly string[]).indexOf(given);
  const table = TABLES[phase] ?? 'attempt';
  const theirs = text(users);
  const scope = sources && text(sources);
  const needles = text(aliasNeedles(users));
  const [row] = await db.patient<[number | null, number]>(
    `SELECT max(id), count(*) FROM (SELECT id FROM rollcall.${table} WHERE id > $1 ORDER BY id LIMIT ${ERASE_STEP}) AS part`,
    [Number(from)],
  );
  const [end = null, count = 0] = row ?? [];
  const values = [Number(from), end, theirs, parts.settle, scope, needles];
  const [left] = end === null ? [] : await db.patient<[number]>(eraseSql(db.now)[table], values);
  const next = count === ERASE_STEP ? `${table}:${end}` : phase + 1 < TABLES.length ? `${TABLES[phase + 1]}:0` : null;
  // Not each time: it looks at all that is claimed.
  const [posting] = next === null ? await db.patient<[number]>(POSTING, [theirs, scope, needles]) : [];
  return { cursor: next, inFlight: Math.max(left?.[0] ?? 0, posting?.[0] ?? 0) };
}

const POSTING = `
  SELECT count(*) FROM rollcall.delivery d JOIN rollcall.owner o ON o.id = d.owner
  WHERE d.state = ${CLAIMED} AND d.type <> ${NOTICE} AND (d.user_id = ANY ($1::text[]) OR ${IS_FORMER('$3')})
    AND ($2::text[] IS NULL OR d.source = ANY ($2::text[]))`;
