import { join } from 'node:path';
import t from 'tap';
import { isOnPostgres, unsharedPostgres } from '../helpers/store.ts';
import { LiveCrashes } from './helpers/crashes.ts';
import { takeovers } from './helpers/takeover.ts';

t.setTimeout(590_000);

/** `test/crash/live.crash.ts` is the long version. */
t.test('matches the SQL after kills between steps, and never goes backwards', async (t) => {
  const crashes = await LiveCrashes.start(t, isOnPostgres ? unsharedPostgres() : null, 7);
  await crashes.dieAt('live_stepped', 8);
  await crashes.dieAt('live_step', 2, 'start');
  t.equal(await crashes.dieInBuild(7), null, 'killed while it builds what is kept');
  await crashes.audit();
  const { changes, leavers } = crashes.heard;
  t.ok(leavers > 0 && changes > leavers, `${changes} changes: members come, and ${leavers} leave`);
});

/** Less than the time of a lease. */
const WITHIN = 25_000;
const skip = isOnPostgres ? 'test/cluster/live.cluster.ts waits for leases there' : false;
t.test('replaces a killed leader on SQLite at once', { skip }, async (t) => {
  const times = await takeovers(t, `sqlite:${join(t.testdir({}), 'rollcall.db')}`, 2);
  t.ok(
    times.every((ms) => ms < WITHIN),
    `heard of what came after the kill within ${times.join(' and ')} ms`,
  );
});
