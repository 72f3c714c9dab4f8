import t from 'tap';
import { audience, createRig, destination, NO_GUARD, type Rig, trait, values } from './helpers/rig.ts';

const FROM_FILE = "select * from read_csv('users.csv', header = true)";
const GUARD = { ...NO_GUARD, allowEmpty: false };

/** An audience of two members whose name has changed since. */
async function createRenamed(t: Parameters<typeof createRig>[0]): Promise<Rig> {
  const rig = await createRig(t);
  rig.write('users', ['user_id', 'ann', 'bob']);
  rig.config.audiences = [audience('old', FROM_FILE, { guard: GUARD })];
  await rig.sync.run();
  await rig.deliver();
  rig.config.audiences = [audience('new', FROM_FILE, { guard: GUARD })];
  rig.setTime('2026-03-01T13:00:00Z');
  return rig;
}

const told = async (rig: Rig, key: string) =>
  values(
    (await rig.deliver()).get('crm')?.filter(({ traits }) => key in traits),
    key,
  );

t.test('holds a rename until a person agrees', async (t) => {
  const rig = await createRenamed(t);
  const [report] = await rig.sync.run();
  t.match(report, {
    error: null,
    runs: [{ key: 'new', state: 'held', renamedFrom: 'old', reason: /^It was old until now: 2 users would leave old/ }],
  });
  t.match(rig.notices, [{ event: 'sync_held', key: 'new' }]);
  t.same((await rig.deliver()).get('crm'), [], 'nothing is sent meanwhile');
  t.match(await rig.sync.approve(report?.runs[0]?.id ?? ''), {
    error: null,
    runs: [
      { key: 'old', action: 'retire', exited: 2 },
      { key: 'new', state: 'done', sent: 2 },
    ],
  });
  t.same(
    (await rig.deliver()).get('crm')?.map(({ traits }) => traits),
    [{ old: false }, { old: false }, { new: true }, { new: true }],
  );
  t.same(await rig.sync.orphans(), []);
});

t.test('ends nothing if a rename is rejected, and asks again', async (t) => {
  const rig = await createRenamed(t);
  const [held] = await rig.sync.run();
  await rig.sync.reject(held?.runs[0]?.id ?? '');
  t.match(await rig.sync.orphans(), [{ key: 'old', version: 1 }]);
  rig.setTime('2026-03-01T14:00:00Z');
  t.match(await rig.sync.run(), [{ runs: [{ state: 'held', renamedFrom: 'old' }] }]);
  rig.config.audiences = [audience('old', FROM_FILE, { guard: GUARD })];
  rig.setTime('2026-03-01T15:00:00Z');
  t.match(await rig.sync.run(), [{ runs: [{ key: 'old', state: 'done', sent: 0 }] }], 'as if nothing had been');
  t.same((await rig.deliver()).get('crm'), []);
});

t.test('ends nothing if the source of a renamed audience is missing', async (t) => {
  const rig = await createRenamed(t);
  rig.config.folder = `${rig.config.folder}/elsewhere`;
  t.match(await rig.sync.run([], { renames: true }), [{ error: { code: 'sql_failed' } }]);
  t.match(await rig.sync.orphans(), [{ key: 'old', version: 1 }]);
  t.same((await rig.deliver()).get('crm'), []);
});

t.test('holds a renamed audience without members even if the rename was approved', async (t) => {
  const rig = await createRenamed(t);
  rig.write('users', ['user_id']);
  const [report] = await rig.sync.run([], { renames: true });
  t.match(report?.runs, [{ state: 'held', reason: 'The result is empty; 2 users would leave.' }]);
  rig.write('users', ['user_id', 'ann', 'bob']);
  await rig.sync.reject(report?.runs[0]?.id ?? '');
  rig.setTime('2026-03-01T14:00:00Z');
  t.match(await rig.sync.run([], { renames: true }), [{ runs: [{ key: 'old' }, { key: 'new', sent: 2 }] }]);
  t.same(await told(rig, 'new'), { ann: true, bob: true });
});

t.test('completes a rename after a crash between the end of one name and the first sync of the other', async (t) => {
  const rig = await createRenamed(t);
  const dying = rig.another({
    accept: async (source, messages, options) => {
      if (messages.some(({ body }) => body.includes('"new":true'))) throw new Error('killed');
      return rig.accept(source, messages, options);
    },
  });
  t.match(await dying.run([], { renames: true }), [{ error: { code: 'engine_failed' } }]);
  rig.setTime('2026-03-01T14:00:00Z');
  t.match(await rig.sync.run(), [
    { error: null, runs: [{ key: 'new', state: 'done', renamedFrom: 'old' }, { sent: 0 }] },
  ]);
  const all = (await rig.deliver()).get('crm')?.map(({ traits }) => traits);
  t.same(all, [{ old: false }, { old: false }, { new: true }, { new: true }]);
});

t.test('settles on the last name when a name changes to and fro while a destination is away', async (t) => {
  const rig = await createRenamed(t);
  rig.config.destinations = [destination('crm'), destination('mail')];
  rig.config.audiences = [audience('old', FROM_FILE)];
  await rig.sync.run();
  rig.config.destinations = [destination('crm')];
  for (const [hour, name] of ['new', 'old', 'new', 'old'].entries()) {
    rig.setTime(`2026-03-02T0${hour}:00:00Z`);
    rig.config.audiences = [audience(name, FROM_FILE)];
    t.match(await rig.sync.run([name], { renames: true }), [{ error: null }]);
  }
  rig.config.destinations = [destination('crm'), destination('mail')];
  rig.setTime('2026-03-02T09:00:00Z');
  t.match(await rig.sync.run(), [{ error: null }]);
  for (const [name, heard] of await rig.deliver()) {
    const last = new Map(
      heard.flatMap(({ userId, traits }) => Object.entries(traits).map(([k, v]) => [k + userId, v])),
    );
    t.match(Object.fromEntries(last), { oldann: true, oldbob: true }, name);
    t.notOk(last.get('newann'));
  }
});

t.test('clears the old value when an audience becomes a trait of the same key, and back', async (t) => {
  const rig = await createRig(t);
  const state = new Map<string, unknown>();
  const learn = async () => {
    for (const { userId, traits } of (await rig.deliver()).get('crm') ?? [])
      for (const [key, value] of Object.entries(traits)) state.set(`${key} ${userId}`, value);
    return Object.fromEntries([...state].filter(([, value]) => value !== null && value !== false));
  };
  const rows = "select unnest(['ann', 'bob']) as user_id";
  rig.config.audiences = [audience('vip', rows)];
  await rig.sync.run();
  t.same(await learn(), { 'vip ann': true, 'vip bob': true });
  rig.config.audiences = [];
  rig.config.traits = [trait('vip', "select 'ann' as user_id, 1 as score, 2 as rank")];
  rig.setTime('2026-03-01T13:00:00Z');
  await rig.sync.run();
  t.same(await learn(), { 'score ann': 1, 'rank ann': 2 });
  rig.config.traits = [];
  rig.config.audiences = [audience('vip', rows)];
  rig.setTime('2026-03-01T14:00:00Z');
  await rig.sync.run();
  t.same(await learn(), { 'vip ann': true, 'vip bob': true });
});
