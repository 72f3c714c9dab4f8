export { RollcallError } from '../../src/kernel/errors.ts';
export { duckdbDialect } from './duckdb/dialect.ts';
export { type DuckdbType, duckdbType } from './duckdb/types.ts';
export type { ModuleEngineOptions, OpenModuleEngine } from './module-options.ts';
export * from './port.ts';
export { postgresDialect } from './postgres/dialect.ts';
export { createSqlEngine } from './sql/engine.ts';
export type { Column, SqlDialect, ValueType } from './sql/plan-query.ts';
export type { SqlDatabase, SqlSession } from './sql/session.ts';
