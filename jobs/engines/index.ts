export type { Column, Dialect } from './plan-sql.ts';
export * from './port.ts';
export { createSqlEngine, type Session, type SqlDatabase } from './sql-engine.ts';
