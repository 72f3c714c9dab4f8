import t from 'tap';
import { Scenario } from './scenario.ts';

// `npm run test:crash` is the long version.
t.test('twenty crashes, two at each failpoint, lose nothing that was accepted', async (t) => {
  const scenario = await Scenario.start(t);
  for (let kill = 1; kill <= 2; kill += 1) await scenario.migrationRound();
  for (const passes of [1, 2]) {
    for (const failpoint of ['accept', 'commit', 'claim', 'post', 'settle', 'retry'] as const) {
      await scenario.round({ failpoint, passes: passes * 3 });
    }
    for (const failpoint of ['sync_stage', 'sync_stream', 'sync_commit'] as const) {
      await scenario.round({ failpoint, passes: 1 });
    }
  }
  await scenario.finish();
});
