import t from 'tap';
import { runOnPostgres } from '../helpers/on-postgres.ts';

/*
 * Tests of the worker whose outcome goes through the store. The others stay on SQLite: what they look at ends before a store
 * sees it (deadline, faults, outcomes, proxy, tls, address-guard, request, resolve, idle-connection), or they have none
 * (rate, settler, window, window-place).
 */
await runOnPostgres(t, {
  databases: 2,
  suites: [
    'crash/answers',
    'deliver/clocks',
    'deliver/configuration',
    'deliver/delivery',
    'deliver/downtime',
    'deliver/fleet',
    'deliver/endpoint/isolation',
    'deliver/lease',
    'deliver/leaving',
    'deliver/endpoint/message-faults',
    'deliver/endpoint/refusing',
    'deliver/share',
    'deliver/suspects',
    'deliver/upkeep',
    'property/delivery',
  ],
});
