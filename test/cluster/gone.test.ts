import t from 'tap';
import { comeAndGo, isShort, postgres } from './fleet-scenarios.ts';

await t.test('SQLite: buries deliveries to a destination unknown for removedAfter, not earlier', (t) => comeAndGo(t));
// The rule is the same, and the contract of the stores holds for both.
await t.test(
  'Postgres: buries deliveries to a destination unknown for removedAfter, not earlier',
  { skip: isShort && 'in npm run test:cluster' },
  async (t) => comeAndGo(t, await postgres(t)),
);
