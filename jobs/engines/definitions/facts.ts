import type { Fact } from '../../../src/definition/conditions.ts';
import type { Activity, ComputedPlace } from '../../../src/definition/definition.ts';
import { traitsIn } from '../../../src/definition/operators.ts';
import type { KeyPath } from '../../../src/definition/places.ts';
import { byPerson, fromActivity, latestTrait, RAW_PERSON, timestamp } from './activity.ts';
import { ago, type DefinitionDialect } from './dialect.ts';
import { passesAll } from './operators.ts';
import { sequenceQuery } from './sequence.ts';

/** The SQL of what a definition refers to. */
export interface NamedSql {
  /** The definition of another audience, by its key. */
  audience(key: string): string;
  /** (id, value) of a trait or of an audience with columns; the value is JSON text of an object. */
  values(place: ComputedPlace): string;
}

/** A fact that is found in the log. That of a split follows from the id. */
type QueriedFact = Exclude<Fact, { readonly kind: 'split' }>;

/** A query for the people (unique user_id) of whom a fact is true. */
export function factQuery(fact: QueriedFact, named: NamedSql, dialect: DefinitionDialect): string {
  switch (fact.kind) {
    case 'performed':
      return performedQuery(fact.activity, countCondition(fact.least, fact.most), dialect);
    case 'firstTime':
      return firstTimeQuery(fact.activity, dialect);
    case 'sequence':
      return sequenceQuery(fact.sequence, dialect);
    case 'trait':
      return traitQuery(fact, dialect);
    case 'computed':
      return testedQuery(computedQuery(fact.place, named, dialect), [], fact, dialect);
    case 'audience':
      return membersQuery(named.audience(fact.key), dialect);
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
    ${fromActivity(activity, dialect)}
    GROUP BY 1, 2`;
  return `SELECT user_id FROM (${byPerson(done, ['done.times'], dialect)}) AS people
  GROUP BY user_id HAVING sum(times) ${count}`;
}

/** The earliest one must not be that of a clock which is years off. */
function firstTimeQuery(activity: Activity, dialect: DefinitionDialect): string {
  const { within, until, since } = activity;
  const always = { ...activity, within: null, until: 0, since: null };
  const done = `SELECT ${RAW_PERSON}, min(likely_at) AS first_at
    ${fromActivity(always, dialect)}
    GROUP BY 1, 2`;
  const window = [
    `min(first_at) <= ${ago(until)}`,
    ...(within === null ? [] : [`min(first_at) > ${ago(within)}`]),
    ...(since === null ? [] : [`min(first_at) >= ${timestamp(since)}`]),
  ];
  return `SELECT user_id FROM (${byPerson(done, ['done.first_at'], dialect)}) AS people
  GROUP BY user_id HAVING ${window.join(' AND ')}`;
}

type TraitFact = Extract<Fact, { readonly kind: 'trait' }>;

function traitQuery(fact: TraitFact, dialect: DefinitionDialect): string {
  const [trait = '', ...rest] = fact.path;
  return testedQuery(latestTrait(trait, dialect), rest, fact, dialect);
}

/** People whose value passes. @param values - a query of (user_id, value) */
function testedQuery(
  values: string,
  rest: KeyPath,
  { tests, passes }: Pick<TraitFact, 'tests' | 'passes'>,
  dialect: DefinitionDialect,
): string {
  const others = traitsIn([{ tests }]);
  const joins = others.map(
    (other, place) =>
      `LEFT JOIN (${latestTrait(other, dialect)}) AS other${place} ON other${place}.user_id = latest.user_id`,
  );
  const value = rest.length === 0 ? 'latest.value' : dialect.at('latest.value', rest);
  const condition = passesAll(value, tests, dialect, (other) => `other${others.indexOf(other)}.value`);
  return `SELECT latest.user_id FROM (
    ${values}
  ) AS latest ${joins.join('\n  ')}
  WHERE ${passes ? condition : `NOT (${condition})`}`;
}

/** A query for (user_id, value) of people with a value. That of the current id counts, or else that of the least former one. */
export function computedQuery(place: ComputedPlace, named: NamedSql, dialect: DefinitionDialect): string {
  const value = dialect.at(dialect.json('value'), [place.column]);
  const rows = `SELECT FALSE AS is_anonymous, id, ${value} AS value FROM (\n${named.values(place)}\n) AS computed`;
  return `SELECT DISTINCT ON (user_id) user_id, value FROM (${byPerson(rows, ['done.id', 'done.value'], dialect)}) AS people
    WHERE ${dialect.exists('value')} ORDER BY user_id, id <> user_id, id`;
}

/** A query for an audience's members by their canonical ids. */
function membersQuery(sql: string, dialect: DefinitionDialect): string {
  const members = `SELECT FALSE AS is_anonymous, CAST(user_id AS varchar)${dialect.binary} AS id FROM (\n${sql}\n) AS definition`;
  return `SELECT DISTINCT user_id FROM (${byPerson(members, [], dialect)}) AS people`;
}
