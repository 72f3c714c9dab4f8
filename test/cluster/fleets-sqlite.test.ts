import t from 'tap';
import { rollToAndFro } from './fleet-scenarios.ts';

await t.test('SQLite: loses, buries and reverts nothing while two processes roll to and fro', (t) =>
  rollToAndFro(t, { processes: 2, kills: true, rolls: 1 }),
);
