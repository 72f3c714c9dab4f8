import t from 'tap';
import { isShort, postgres, rollToAndFro } from './fleet-scenarios.ts';

// The rules are those of SQLite, which the short version looks at, and the contract of the stores holds for both.
await t.test(
  'Postgres: loses, buries and reverts nothing while processes roll to and fro',
  { skip: isShort && 'in npm run test:cluster' },
  async (t) => rollToAndFro(t, { processes: 4, kills: true, rolls: 1, database: await postgres(t) }),
);
