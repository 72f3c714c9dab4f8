import t from 'tap';
import { Crashes } from './helpers/crashes.ts';

t.test('killed at each step of sealing, merging and deleting, the log has every acknowledged event once', async (t) => {
  const crashes = new Crashes(t);
  for (const passes of [9, 23, 40]) t.ok(await crashes.live({ failpoint: 'commit', passes }, 20), `commit ${passes}`);
  for (const failpoint of ['log_written', 'log_placed', 'log_recorded', 'log_removed'] as const) {
    for (const passes of [1, 3]) t.ok(await crashes.live({ failpoint, passes }, 20), `${failpoint} ${passes}`);
  }
  t.ok(await crashes.live(null, 4), 'the last life ends as it should');
  await crashes.audit(t);
});
