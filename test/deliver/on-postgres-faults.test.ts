import t from 'tap';
import { runOnPostgres } from '../helpers/on-postgres.ts';

// Tests of the worker where endpoints, clocks, processes or leases fail; see on-postgres for the others.
await runOnPostgres(t, {
  'crash/answers': 1,
  'deliver/clocks': 1,
  'deliver/downtime': 1,
  'deliver/isolation': 1,
  'deliver/lease': 1,
  'deliver/message-faults': 1,
  'deliver/suspects': 1,
  'deliver/refusing': 1,
});
