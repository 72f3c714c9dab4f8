import t from 'tap';
import { isOnPostgres, unsharedPostgres } from '../helpers/store.ts';
import { Crashes } from './helpers/crashes.ts';

/** `test/crash/log.crash.ts` is the long version. */
t.test('keeps every acknowledged event once if killed while sealing, merging, dropping or deleting', async (t) => {
  const crashes = new Crashes(t, isOnPostgres ? unsharedPostgres() : null);
  for (const place of crashes.places) {
    t.ok(await crashes.dieAt(place), `${place.step} at ${place.failpoint} ${place.passes}`);
  }
  t.ok(await crashes.endWell(), 'the last life ends as it should');
  await crashes.audit(t);
});
