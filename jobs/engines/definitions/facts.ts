import type { Fact } from '../../../src/definition/conditions.ts';
import type { Activity } from '../../../src/definition/definition.ts';
import { activityConditions, byPerson, inOrder, RAW_PERSON } from './activity.ts';
import type { DefinitionDialect } from './dialect.ts';
import { passesAll } from './operators.ts';

/** The SQL of another audience, by its key. */
export type AudienceSql = (key: string) => string;

/** A query for the people (unique user_id) of whom a fact is true. */
export function factQuery(fact: Fact, audience: AudienceSql, dialect: DefinitionDialect): string {
  switch (fact.kind) {
    case 'performed':
      return performedQuery(fact.activity, countCondition(fact.least, fact.most), dialect);
    case 'trait':
      return traitQuery(fact, dialect);
    case 'audience':
      return membersQuery(audience(fact.key), dialect);
  }
}

/** A query for everybody with an event until now. */
export function peopleQuery(dialect: DefinitionDialect): string {
  const seen = `SELECT DISTINCT ${RAW_PERSON} FROM ${dialect.view('events')} WHERE "timestamp" <= $now`;
  return `SELECT DISTINCT user_id FROM (${byPerson(seen, [], dialect)}) AS people`;
}

function countCondition(least: number, most: number | null): string {
  if (most === null) return `>= ${least}`;
  return least === most ? `= ${least}` : `BETWEEN ${least} AND ${most}`;
}

/** Counts by the events' own ids first, as there are far fewer ids than events. */
function performedQuery(activity: Activity, count: string, dialect: DefinitionDialect): string {
  const done = `SELECT ${RAW_PERSON}, count(*) AS times
    FROM ${dialect.view('tracks')}
    WHERE ${activityConditions(activity, dialect)}
    GROUP BY 1, 2`;
  return `SELECT user_id FROM (${byPerson(done, ['done.times'], dialect)}) AS people
  GROUP BY user_id HAVING sum(times) ${count}`;
}

type TraitFact = Extract<Fact, { readonly kind: 'trait' }>;

/** Uses the latest `identify` that has the trait, since others leave it unchanged. */
function traitQuery({ path, tests, passes }: TraitFact, dialect: DefinitionDialect): string {
  const [trait = '', ...rest] = path;
  const said = `SELECT ${RAW_PERSON}, ${dialect.at('traits', [trait])} AS value, "timestamp", received_at, message_id
    FROM ${dialect.view('identifies')}
    WHERE "timestamp" <= $now AND ${dialect.at('traits', [trait])} IS NOT NULL`;
  const columns = ['done.value', 'done."timestamp"', 'done.received_at', 'done.message_id'];
  const value = rest.length === 0 ? 'value' : dialect.at('value', rest);
  const condition = passesAll(value, tests, dialect);
  return `SELECT user_id FROM (
    SELECT DISTINCT ON (user_id) user_id, value
    FROM (${byPerson(said, columns, dialect)}) AS people
    ORDER BY user_id, ${inOrder('DESC', dialect)}
  ) AS latest
  WHERE ${passes ? condition : `NOT (${condition})`}`;
}

/** A query for an audience's members by their canonical ids. */
function membersQuery(sql: string, dialect: DefinitionDialect): string {
  const members = `SELECT FALSE AS is_anonymous, CAST(user_id AS varchar)${dialect.binary} AS id FROM (\n${sql}\n) AS definition`;
  return `SELECT DISTINCT user_id FROM (${byPerson(members, [], dialect)}) AS people`;
}
