export * from './port.ts';
export { createSqlEngine } from './sql/engine.ts';
export type { Column, Dialect } from './sql/plan-query.ts';
export type { Session, SqlDatabase } from './sql/session.ts';
