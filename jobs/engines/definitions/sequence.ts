import type { Sequence, SequenceStep } from '../../../src/definition/definition.ts';
import { messagesOf } from './activity.ts';
import { ago, type DefinitionDialect } from './dialect.ts';

/**
 * A query for the people (unique user_id) of a sequence. SequenceStep by step it finds the times at which all steps until then
 * can be done. Of the step before, the latest time that is early enough decides, so a window function finds it.
 *
 * @param numbers - adds rows of the people who did the steps until each one, with a number in `fact`
 */
export function sequenceQuery({ steps, not }: Sequence, dialect: DefinitionDialect, numbers?: StepNumbers): string {
  const mayShare = steps.some((one, place) => steps.slice(place + 1).some((other) => overlap(one, other)));
  const tables = mayShare ? sharingTables(steps, dialect) : separateTables(steps, dialect);
  const last = `reached${steps.length - 1}`;
  const end = not === null ? `SELECT DISTINCT user_id FROM ${last}` : unanswered(last, not, dialect);
  const reached = steps.map(
    (_, step) => `SELECT DISTINCT user_id, ${(numbers?.first ?? 0) + step} AS fact FROM reached${step}`,
  );
  const found = numbers
    ? [`SELECT user_id, ${numbers.place} AS fact FROM (${end}) AS done`, ...reached].join('\n  UNION ALL ')
    : end;
  return `WITH ${tables.map(([name, query]) => `${name} AS (${query})`).join(',\n')}
  ${found}`;
}

/** The number of the whole sequence, and that of the first step. */
interface StepNumbers {
  readonly place: number;
  readonly first: number;
}

/** True if a message may be of both steps. */
function overlap({ activity: one }: SequenceStep, { activity: other }: SequenceStep): boolean {
  if (one.kind !== other.kind) return false;
  return one.names === null || other.names === null || one.names.some((name) => other.names?.includes(name));
}

type Table = readonly [name: string, query: string];

function separateTables(steps: readonly SequenceStep[], dialect: DefinitionDialect): readonly Table[] {
  return steps.map(({ activity, atLeast, atMost }, place) => {
    const own = messagesOf(activity, dialect);
    if (place === 0) return ['reached0', `SELECT DISTINCT user_id, done_at FROM (${own}) AS own`];
    const rows = `SELECT user_id, done_at, FALSE AS is_next FROM reached${place - 1}
      UNION ALL SELECT user_id, done_at, TRUE FROM (${own}) AS own`;
    return [`reached${place}`, `SELECT DISTINCT user_id, done_at FROM (${following(rows, atLeast, atMost)}) AS next`];
  });
}

/** Rows of a step (is_next) that one of the step before precedes in time. */
function following(rows: string, atLeast: number, atMost: number | null): string {
  const frame = atLeast === 0 ? 'CURRENT ROW' : `INTERVAL '${atLeast} milliseconds' PRECEDING`;
  const before = `max(CASE WHEN NOT is_next THEN done_at END)
    OVER (PARTITION BY user_id ORDER BY done_at RANGE BETWEEN UNBOUNDED PRECEDING AND ${frame})`;
  const latest = atMost === null ? 'before IS NOT NULL' : `before >= done_at - INTERVAL '${atMost} milliseconds'`;
  return `SELECT * FROM (SELECT *, ${before} AS before FROM (${rows}) AS joined) AS placed
    WHERE is_next AND ${latest}`;
}

/**
 * Steps that may share messages: those that were done at the very time of a row are remembered, as they must differ.
 * At most as many messages are kept of one time and the same steps as there are steps.
 */
function sharingTables(steps: readonly SequenceStep[], dialect: DefinitionDialect): readonly Table[] {
  const flags = steps.map((_, place) => `step${place}`);
  const each = steps.map(
    ({ activity }, place) =>
      `SELECT user_id, done_at, message_id, ${place} AS step FROM (${messagesOf(activity, dialect, ['message_id'])}) AS own`,
  );
  const found = `SELECT user_id, done_at, message_id, ${flags.map((flag, place) => `bool_or(step = ${place}) AS ${flag}`).join(', ')}
    FROM (${each.join(' UNION ALL ')}) AS own GROUP BY user_id, done_at, message_id`;
  const numbered = `SELECT *, row_number() OVER (PARTITION BY user_id, done_at, ${flags.join(', ')} ORDER BY message_id) AS place,
      row_number() OVER (PARTITION BY user_id, done_at ORDER BY message_id) AS number
    FROM (${found}) AS found`;
  const own = (of: string) => `concat('|', ${of}number, '|')`;
  const reached = steps.map(({ atLeast, atMost }, place): Table => {
    const name = `reached${place}`;
    if (place === 0) return [name, `SELECT user_id, done_at, ${own('')} AS used FROM messages WHERE step0`];
    const rows = `SELECT user_id, done_at, FALSE AS is_next, 0 AS number FROM reached${place - 1}
      UNION ALL SELECT user_id, done_at, TRUE, number FROM messages WHERE step${place}`;
    const later = `SELECT user_id, done_at, ${own('')} AS used
      FROM (${following(rows, Math.max(1, atLeast), atMost)}) AS later`;
    if (atLeast > 0) return [name, later];
    const same = `SELECT messages.user_id, messages.done_at, concat(used, ${own('messages.')}) AS used
      FROM reached${place - 1} AS before JOIN messages ON messages.user_id = before.user_id AND messages.done_at = before.done_at
      WHERE step${place} AND strpos(used, ${own('messages.')}) = 0`;
    return [name, `${later} UNION ${same}`];
  });
  return [['messages', `SELECT * FROM (${numbered}) AS numbered WHERE place <= ${steps.length}`], ...reached];
}

/** People of whom no such message came in time after one of the last step, once that time has passed. */
function unanswered(
  last: string,
  { activity, atMost }: NonNullable<Sequence['not']>,
  dialect: DefinitionDialect,
): string {
  const rows = `SELECT user_id, done_at, FALSE AS is_answer FROM ${last}
    UNION ALL SELECT user_id, done_at, TRUE FROM (${messagesOf(activity, dialect)}) AS own`;
  const answer = `min(CASE WHEN is_answer THEN done_at END) OVER (PARTITION BY user_id ORDER BY done_at
    RANGE BETWEEN INTERVAL '1 millisecond' FOLLOWING AND INTERVAL '${atMost} milliseconds' FOLLOWING)`;
  return `SELECT DISTINCT user_id FROM (SELECT *, ${answer} AS answer FROM (${rows}) AS joined) AS placed
    WHERE NOT is_answer AND answer IS NULL AND done_at <= ${ago(atMost)}`;
}
