export { RollcallError } from '../../src/kernel/errors.ts';
export { type Lexis, MYSQL, SQLITE, STANDARD, singleStatement } from '../engines/sql/statement.ts';
export * from './port.ts';
