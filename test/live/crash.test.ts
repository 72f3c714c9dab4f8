import t from 'tap';
import { isOnPostgres, storeUrl } from '../helpers/store.ts';
import { LiveCrashes } from './helpers/crashes.ts';

t.setTimeout(400_000);

/** `test/crash/live.crash.ts` is the long version. */
t.test(
  'killed between steps while events come in, live is what the SQL says, and nothing goes backwards',
  async (t) => {
    const crashes = await LiveCrashes.start(t, isOnPostgres ? storeUrl() : null, 7);
    await crashes.dieAt('live_stepped', 8);
    await crashes.dieAt('live_step', 2, 'start');
    await crashes.audit();
    const { changes, leavers } = crashes.heard;
    t.ok(leavers > 0 && changes > leavers, `${changes} changes: members come, and ${leavers} leave`);
  },
);
