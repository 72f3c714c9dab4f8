import t from 'tap';
import { Scenario } from './scenario.ts';

// `npm run test:crash` is the long version. Processes that start and leases that end are waited for side by side.
t.jobs = 2;
t.test('loses nothing accepted in ten crashes, one at each failpoint', { buffered: true }, async (t) => {
  const scenario = await Scenario.start(t);
  await scenario.migrationRound();
  for (const failpoint of ['accept', 'commit', 'claim', 'post', 'settle', 'retry'] as const) {
    await scenario.round({ failpoint, passes: 3 });
  }
  for (const failpoint of ['sync_stage', 'sync_stream', 'sync_commit'] as const) {
    await scenario.round({ failpoint, passes: 1 });
  }
  await scenario.finish();
});

t.test(
  'loses nothing in crashes between batches that are accepted whole, in part or without an answer',
  { buffered: true },
  async (t) => {
    const scenario = await Scenario.start(t, { isBatched: true });
    for (const failpoint of ['post', 'settle', 'retry'] as const) await scenario.round({ failpoint, passes: 3 });
    await scenario.round({ afterDeliveries: 300 });
    await scenario.finish();
  },
);
