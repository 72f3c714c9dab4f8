import t from 'tap';
import type { Failpoint } from '../../src/failpoint.ts';
import { Scenario } from './scenario.ts';

const POINTS: readonly Failpoint[] = [
  'accept',
  'commit',
  'claim',
  'post',
  'settle',
  'retry',
  'migration',
  'sync_stage',
  'sync_stream',
  'sync_commit',
];

for (const failpoint of POINTS) {
  t.test(`twenty crashes at ${failpoint} lose nothing that was accepted`, async (t) => {
    const scenario = new Scenario();
    await scenario.start();
    const once = failpoint === 'migration' || failpoint.startsWith('sync');
    for (let kill = 1; kill <= 20; kill += 1) await scenario.round({ failpoint, passes: once ? 1 : kill });
    await scenario.finish(t);
  });
}

t.test('a hundred crashes at random moments lose nothing that was accepted', async (t) => {
  const scenario = new Scenario();
  await scenario.start();
  for (let kill = 0; kill < 100; kill += 1) {
    await scenario.round({ afterDeliveries: 1 + Math.floor(Math.random() * 400) });
  }
  await scenario.finish(t);
});
