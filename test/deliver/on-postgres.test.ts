import t from 'tap';
import { runOnPostgres } from '../helpers/on-postgres.ts';

/*
 * Tests of the worker whose outcome goes through the store. The others stay on SQLite: what they look at ends before a store
 * sees it (deadline, faults, outcomes, proxy, tls, address-guard, request, resolve, idle-connection), or they have none
 * (rate, settler, window, window-place).
 */
await runOnPostgres(t, {
  'crash/answers': 1,
  'deliver/clocks': 1,
  'deliver/configuration': 1,
  'deliver/delivery': 1,
  'deliver/downtime': 1,
  'deliver/fleet': 1,
  'deliver/isolation': 1,
  'deliver/lease': 1,
  'deliver/leaving': 1,
  'deliver/message-faults': 1,
  'deliver/refusing': 1,
  'deliver/share': 1,
  'deliver/suspects': 1,
  'deliver/upkeep': 1,
  'property/delivery': 1,
});
