import t from 'tap';
import { isShort, postgres, rollToAndFro } from './fleet-scenarios.ts';

await t.test('Postgres: processes roll to and fro, and nothing is lost, buried or turned back', async (t) =>
  rollToAndFro(t, { processes: isShort ? 2 : 4, kills: !isShort, rolls: 1, database: await postgres(t) }),
);
