import t from 'tap';
import { runOnPostgres } from '../helpers/on-postgres.ts';

/*
 * Tests of the worker whose outcome goes through the store; the others are in on-postgres-faults. Those not named in
 * either stay on SQLite: what they look at ends before a store sees it (deadline, faults, outcomes, proxy, tls,
 * address-guard, request, resolve, idle-connection), or they have none (rate, settler, window, window-place).
 */
await runOnPostgres(t, {
  'deliver/configuration': 1,
  'deliver/delivery': 1,
  'deliver/fleet': 1,
  'deliver/leaving': 1,
  'deliver/share': 1,
  'deliver/upkeep': 1,
  'property/delivery': 1,
});
