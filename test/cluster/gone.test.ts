import t from 'tap';
import { comeAndGo, isShort, postgres } from './fleet-scenarios.ts';

await t.test('SQLite: what no process knows for removedAfter dies, and nothing before', (t) => comeAndGo(t));
// The short version leaves that to SQLite: the rule is the same, and the contract of the stores holds for both.
if (!isShort) {
  await t.test('Postgres: what no process knows for removedAfter dies, and nothing before', async (t) =>
    comeAndGo(t, await postgres(t)),
  );
}
