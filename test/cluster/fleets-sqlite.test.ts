import t from 'tap';
import { rollToAndFro } from './fleet-scenarios.ts';

await t.test('SQLite: two processes roll to and fro, and nothing is lost, buried or turned back', (t) =>
  rollToAndFro(t, { processes: 2, kills: true, rolls: 1 }),
);
