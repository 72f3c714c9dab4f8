import t, { type Test } from 'tap';
import { audience, createRig, destination, type Rig, values } from './helpers/rig.ts';

const LIST = "select unnest(['ann', 'bob']) as user_id";

/** A process with schedules, after an audience was retired while `mail` was away. It is back now. */
async function behind(t: Test) {
  const rig = await createRig(t);
  rig.config.destinations = [destination('crm'), destination('mail')];
  rig.config.audiences = [audience('a', LIST)];
  await rig.sync.run();
  rig.config.audiences = [];
  rig.config.destinations = [destination('crm')];
  await rig.sync.retire('a');
  rig.config.destinations = [destination('crm'), destination('mail')];
  await rig.deliver();
  const timers = new Map<number, () => void>();
  let settled = Promise.withResolvers<void>();
  const sync = rig.another({
    clock: {
      ...rig.clock,
      after(ms, callback) {
        timers.set(ms, callback);
        return () => void timers.delete(ms);
      },
    },
    onReport: () => settled.resolve(),
  });
  await sync.start();
  t.teardown(() => sync.stop());
  return {
    rig,
    /** Fires the check that is due after this many milliseconds. */
    async look(ms: number) {
      const due = timers.get(ms);
      timers.delete(ms);
      settled = Promise.withResolvers();
      due?.();
      await settled.promise;
      while (!timers.has(60_000)) await new Promise(setImmediate);
    },
  };
}

const heard = async (rig: Rig) => values((await rig.deliver()).get('mail'), 'a');

t.test('catches up a returned destination soon after a start, without a schedule', async (t) => {
  const { rig, look } = await behind(t);
  await look(5_000);
  t.same(await heard(rig), { ann: false, bob: false });
  t.same(rig.notices, []);
});

t.test('checks an audience that another process is syncing again a minute later', async (t) => {
  const { rig, look } = await behind(t);
  const fence = await rig.store.takeLease('sync:a', 30_000);
  await look(5_000);
  t.same(await heard(rig), {});
  if (fence) await rig.store.releaseLease(fence);
  await look(60_000);
  t.same(await heard(rig), { ann: false, bob: false });
});
