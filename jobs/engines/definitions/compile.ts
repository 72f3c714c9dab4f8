import type { Condition } from '../../../src/definition/conditions.ts';
import type { TraitValue } from '../../../src/definition/definition.ts';
import { singleStatement } from '../sql/statement.ts';
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
export function compile(
  definition: ConfiguredDefinition,
  type: keyof typeof DIALECTS,
  audience: (key: string) => ConfiguredDefinition,
): string {
  const dialect = DIALECTS[type];
  if ('sql' in definition) return definition.sql;
  if ('value' in definition) return valueQuery(definition.value, dialect);
  const audienceSql: AudienceSql = (key) => singleStatement(compile(audience(key), type, audience));
  return conditionQuery(definition.when, audienceSql, dialect);
}
