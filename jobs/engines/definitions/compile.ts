import { type Condition, conjunctsOf } from '../../../src/definition/conditions.ts';
import type { TraitValue } from '../../../src/definition/definition.ts';
import { name } from '../sql/plan-query.ts';
import { singleStatement } from '../sql/statement.ts';
import { absenceQuery } from './absence.ts';
import { latestTrait } from './activity.ts';
import { conditionQuery } from './condition.ts';
import type { DefinitionDialect } from './dialect.ts';
import { duckdbDefinitions } from './duckdb.ts';
import type { AudienceSql } from './facts.ts';
import { postgresDefinitions } from './postgres.ts';
import { valueQuery } from './value.ts';

/** A definition as configured: SQL, or a short definition. */
export type ConfiguredDefinition =
  | { readonly sql: string }
  | { readonly when: Condition }
  | { readonly value: TraitValue };

const DIALECTS: Readonly<Record<'duckdb' | 'postgres', DefinitionDialect>> = {
  duckdb: duckdbDefinitions,
  postgres: postgresDefinitions,
};

/**
 * The SQL of a definition, with `$now` still in it. Short definitions read the views of the event log (docs/event-log.md).
 *
 * @param audience - the definition of another audience, by its key. None may refer to itself, even indirectly.
 * @throws RollcallError `sql_failed` when an audience that it refers to is not a single statement
 */
export function compile(definition: ConfiguredDefinition, type: keyof typeof DIALECTS, audience: DefinitionOf): string {
  const dialect = DIALECTS[type];
  if ('sql' in definition) return definition.sql;
  if ('value' in definition) return valueQuery(definition.value, dialect);
  return conditionQuery(definition.when, audienceSql(type, audience), dialect);
}

/** The SQL of a short definition with traits of the person as columns. @param columns - the trait of each column */
export function compileColumns(
  sql: string,
  columns: Readonly<Record<string, string>>,
  type: keyof typeof DIALECTS,
): string {
  const traits = Object.entries(columns);
  const selected = traits.map(([column], place) => `, column${place}.value AS ${name(column)}`);
  const joins = traits.map(([, trait], place) => {
    const joined = `column${place}`;
    return `LEFT JOIN (\n${latestTrait(trait, DIALECTS[type])}\n) AS ${joined} ON ${joined}.user_id = members.user_id`;
  });
  return `SELECT members.user_id${selected.join('')} FROM (\n${sql}\n) AS members\n${joins.join('\n')}`;
}

type DefinitionOf = (key: string) => ConfiguredDefinition;

function audienceSql(type: keyof typeof DIALECTS, audience: DefinitionOf): AudienceSql {
  return (key) => singleStatement(compile(audience(key), type, audience));
}

/** The SQL of `absenceQuery` for the parts of a condition that must all hold. */
export function compileAbsence(
  user: string,
  when: Condition,
  type: keyof typeof DIALECTS,
  audience: DefinitionOf,
): string {
  const parts = conjunctsOf(when, '').map(({ part }) => part);
  return absenceQuery(user, parts, audienceSql(type, audience), DIALECTS[type]);
}
