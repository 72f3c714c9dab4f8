import { isOnPostgres } from '../../helpers/store.ts';

/** Of tests that let four hours pass, those in `delivery.test.ts` run on Postgres: hundreds of probes and polls take a second there. */
export const FOUR_HOURS = { skip: isOnPostgres && 'others do so on Postgres' };
