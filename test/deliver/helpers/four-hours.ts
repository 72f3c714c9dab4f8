import { isOnPostgres } from '../../helpers/store.ts';

/** Of tests that let four hours pass, those in `delivery.test.ts` run on Postgres: thousands of polls take seconds there. */
export const FOUR_HOURS = { skip: isOnPostgres && 'others do so on Postgres' };
