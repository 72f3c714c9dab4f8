import { LONGEST_LIST, type TraitValue } from '../../../src/definition/definition.ts';
import { byPerson, fromActivity, inOrder, RAW_PERSON } from './activity.ts';
import type { DefinitionDialect } from './dialect.ts';

type PropertyValue = Exclude<TraitValue, { readonly operator: 'count' }>;
type Operator = PropertyValue['operator'];

/** A query for (user_id, value) of each person who has a value. */
export function valueQuery(value: TraitValue, dialect: DefinitionDialect): string {
  if (value.operator === 'count') return countQuery(value, dialect);
  if (isNumeric(value.operator)) return numericQuery(value, value.operator, dialect);
  if (value.operator === 'first' || value.operator === 'last') return extremeQuery(value, dialect);
  return distinctQuery(value, dialect);
}

function countQuery({ activity }: TraitValue, dialect: DefinitionDialect): string {
  const done = `SELECT ${RAW_PERSON}, count(*) AS times
    ${fromActivity(activity, dialect)}
    GROUP BY 1, 2`;
  return `SELECT user_id, CAST(sum(times) AS bigint) AS value
  FROM (${byPerson(done, ['done.times'], dialect)}) AS people GROUP BY user_id`;
}

type Numeric = 'sum' | 'average' | 'min' | 'max';

function isNumeric(operator: Operator): operator is Numeric {
  return operator === 'sum' || operator === 'average' || operator === 'min' || operator === 'max';
}

/** Ignores values that are not numbers. */
function numericQuery({ activity, of }: PropertyValue, operator: Numeric, dialect: DefinitionDialect): string {
  const json = dialect.at(of.part, of.path);
  const done = `SELECT ${RAW_PERSON}, ${dialect.number(json)} AS amount
    ${fromActivity(activity, dialect)}
    AND ${dialect.isNumber(json)}`;
  const amounts = byPerson(done, ['done.amount'], dialect);
  if (operator === 'min' || operator === 'max') {
    return `SELECT user_id, CAST(${operator}(amount) AS double precision) AS value FROM (${amounts}) AS people GROUP BY user_id`;
  }
  const value = operator === 'sum' ? 'total' : dialect.average('total', 'times');
  return `SELECT user_id, ${value} AS value FROM (${dialect.totals(amounts)}) AS totals`;
}

function extremeQuery({ operator, activity, of }: PropertyValue, dialect: DefinitionDialect): string {
  // The earliest one must not be that of a clock which is years off.
  const at = operator === 'first' ? 'likely_at' : '"timestamp"';
  const done = scalars({ activity, of }, `, ${at} AS "timestamp", received_at, message_id`, dialect);
  const columns = ['done.value', 'done."timestamp"', 'done.received_at', 'done.message_id'];
  return `SELECT DISTINCT ON (user_id) user_id, value
  FROM (${byPerson(done, columns, dialect)}) AS people
  ORDER BY user_id, ${inOrder(operator === 'first' ? 'ASC' : 'DESC', dialect)}`;
}

/** Selects text, numbers and booleans. Lists and objects can't be values of a trait. */
function scalars({ activity, of }: Pick<PropertyValue, 'activity' | 'of'>, more: string, dialect: DefinitionDialect) {
  const json = dialect.at(of.part, of.path);
  return `SELECT ${RAW_PERSON}, ${json} AS value${more}
    ${fromActivity(activity, dialect)}
    AND ${dialect.isScalar(json)}`;
}

/** Aggregates a person's distinct values and their counts. */
function distinctQuery({ operator, activity, of }: PropertyValue, dialect: DefinitionDialect): string {
  const done = `SELECT is_anonymous, id, value, count(*) AS times
    FROM (${scalars({ activity, of }, '', dialect)}) AS found GROUP BY 1, 2, 3`;
  const values = `SELECT user_id, value, sum(times) AS times
    FROM (${byPerson(done, ['done.value', 'done.times'], dialect)}) AS people GROUP BY 1, 2`;
  const order = valueOrder(dialect);
  if (operator === 'uniqueCount') {
    return `SELECT user_id, CAST(count(*) AS bigint) AS value FROM (${values}) AS counted GROUP BY user_id`;
  }
  if (operator === 'mostFrequent') {
    return `SELECT DISTINCT ON (user_id) user_id, value FROM (${values}) AS counted ORDER BY user_id, times DESC, ${order}`;
  }
  const ranked = `SELECT user_id, value, row_number() OVER (PARTITION BY user_id ORDER BY ${order}) AS place FROM (${values}) AS counted`;
  return `SELECT user_id, ${dialect.list('value', 'place')} AS value FROM (${ranked}) AS ranked
  WHERE place <= ${LONGEST_LIST} GROUP BY user_id`;
}

/** Sorts booleans first, then numbers by size, then text by its bytes. */
function valueOrder(dialect: DefinitionDialect): string {
  const rank = `CASE WHEN ${dialect.isText('value')} THEN 2 WHEN ${dialect.isNumber('value')} THEN 1 ELSE 0 END`;
  return `${rank}, ${dialect.number('value')}, ${dialect.text('value')}${dialect.binary}`;
}
