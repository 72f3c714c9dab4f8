import t from 'tap';
import { comeAndGo, isShort, postgres } from './fleet-scenarios.ts';

await t.test('SQLite: what no process knows for removedAfter dies, and nothing before', (t) => comeAndGo(t));
// The rule is the same, and the contract of the stores holds for both.
await t.test(
  'Postgres: what no process knows for removedAfter dies, and nothing before',
  { skip: isShort && 'in npm run test:cluster' },
  async (t) => comeAndGo(t, await postgres(t)),
);
