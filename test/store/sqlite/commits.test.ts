import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import { Commits } from '../../../src/store/sqlite/thread/commits.ts';

/** Commits whose syncs end when the test says so. */
function rig() {
  const syncs: PromiseWithResolvers<void>[] = [];
  const answered: string[] = [];
  const failures: Error[] = [];
  const sync = () => {
    const next = Promise.withResolvers<void>();
    syncs.push(next);
    return next.promise;
  };
  const commits = new Commits(
    sync,
    () => {},
    (error) => failures.push(error),
  );
  const add = (name: string, needsSync = true) => commits.add({ needsSync, answer: () => answered.push(name) });
  return { commits, syncs, answered, failures, add };
}

t.test('answers a commit after a sync that began after it, never after one under way', async (t) => {
  const { commits, syncs, answered, add } = rig();
  add('a');
  add('b');
  t.equal(syncs.length, 1, 'one at a time');
  syncs[0]?.resolve();
  await turn();
  t.strictSame(answered, ['a']);
  t.equal(commits.isSyncing, true);
  add('c');
  syncs[1]?.resolve();
  await turn();
  t.strictSame(answered, ['a', 'b']);
  syncs[2]?.resolve();
  await turn();
  t.strictSame(answered, ['a', 'b', 'c']);
  t.equal(commits.isSyncing, false);
  t.equal(syncs.length, 3);
});

t.test('answers commits that need no sync at once, but not before data they may have seen is on disk', async (t) => {
  const { syncs, answered, add } = rig();
  add('claim', false);
  t.strictSame(answered, ['claim']);
  t.equal(syncs.length, 0);
  add('accept');
  add('its claim', false);
  await turn();
  t.strictSame(answered, ['claim']);
  syncs[0]?.resolve();
  await turn();
  t.strictSame(answered, ['claim', 'accept', 'its claim']);
  t.equal(syncs.length, 1);
});

t.test('answers nobody after a failed sync', async (t) => {
  const { syncs, answered, failures, add } = rig();
  add('a');
  add('b', false);
  syncs[0]?.reject(new Error('EIO'));
  await turn();
  t.strictSame(answered, []);
  t.match(failures, [{ message: 'EIO' }]);
});
