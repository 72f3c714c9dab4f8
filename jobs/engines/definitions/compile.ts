import type { Condition } from '../../../src/definition/conditions.ts';
import type { TraitValue } from '../../../src/definition/definition.ts';
import { duckdbDialect } from '../duckdb/dialect.ts';
import { postgresDialect } from '../postgres/dialect.ts';
import { foldedValues, freshValues, idText, name, type SqlDialect } from '../sql/plan-query.ts';
import { singleStatement } from '../sql/statement.ts';
import { committed } from '../sql/tables.ts';
import { latestTrait } from './activity.ts';
import { conditionQuery } from './condition.ts';
import type { DefinitionDialect } from './dialect.ts';
import { duckdbDefinitions } from './duckdb.ts';
import type { NamedSql } from './facts.ts';
import { type CountedDefinition, countedDefinition } from './funnel.ts';
import { postgresDefinitions } from './postgres.ts';
import { valueQuery } from './value.ts';
import { valueType } from './value-column.ts';

/** A definition as configured: SQL, or a short definition. */
export type ConfiguredDefinition =
  | { readonly sql: string }
  | { readonly when: Condition }
  | { readonly value: TraitValue };

export const DIALECTS: Readonly<Record<'duckdb' | 'postgres', DefinitionDialect>> = {
  duckdb: duckdbDefinitions,
  postgres: postgresDefinitions,
};

const SQL_DIALECTS: Readonly<Record<keyof typeof DIALECTS, SqlDialect>> = {
  duckdb: duckdbDialect,
  postgres: postgresDialect,
};

/**
 * The SQL of a definition, with `$now` still in it. Short definitions read the views of the event log (docs/event-log.md).
 *
 * @param audience - the definition of another audience, by its key. None may refer to itself, even indirectly.
 * @param schema - the schema of the engine's snapshots
 * @throws RollcallError `sql_failed` when an audience that it refers to is not a single statement
 */
export function compile(
  definition: ConfiguredDefinition,
  type: keyof typeof DIALECTS,
  audience: DefinitionOf,
  schema?: string,
): string {
  const dialect = DIALECTS[type];
  if ('sql' in definition) return definition.sql;
  if ('value' in definition) return valueQuery(definition.value, dialect);
  return conditionQuery(definition.when, namedSql(type, audience, schema), dialect);
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

/** A short definition of an audience, taken apart to count the people that each condition passes. */
export function compileCounted(
  when: Condition,
  allowPlaceholders: boolean,
  type: keyof typeof DIALECTS,
  audience: DefinitionOf,
  schema?: string,
): CountedDefinition {
  return countedDefinition(when, allowPlaceholders, namedSql(type, audience, schema), DIALECTS[type]);
}

type DefinitionOf = (key: string) => ConfiguredDefinition;

/** The SQL of what conditions refer to. */
export function namedSql(type: keyof typeof DIALECTS, audience: DefinitionOf, schema?: string): NamedSql {
  return {
    audience: (key) => singleStatement(compile(audience(key), type, audience, schema)),
    values({ key, live }) {
      if (!live) return `SELECT user_id${DIALECTS[type].binary} AS id, value FROM ${committed(key, schema)}`;
      const { value, allowPlaceholders } = live;
      const sql = SQL_DIALECTS[type];
      const column = { name: 'value', ...valueType(value, type) };
      const field = { key, value: sql.traitValue(column) ?? 'NULL', ...sql.jsonType(column) };
      const id = idText('user_id', allowPlaceholders, sql);
      const fresh = freshValues(valueQuery(value, DIALECTS[type]), id, [field], sql);
      return foldedValues(fresh, 'trait', sql);
    },
  };
}
