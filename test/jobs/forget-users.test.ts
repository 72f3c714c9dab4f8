import t, { type Test } from 'tap';
import type { Claim, Verdict } from '../../src/store/port.ts';
import { audience, createRig, destination, type Rig, trait } from './helpers/rig.ts';

const list = (...users: string[]) => `select unnest([${users.map((user) => `'${user}'`)}]::varchar[]) as user_id`;
const REFUSED: Verdict = { kind: 'dead', reason: 'refused', status: 400, firstAt: null };
const away = (name: string) => ({ ...destination(name), enabled: false });

/** Two destinations, the values that each has, and audiences that both were sent. */
async function createWorld(t: Test) {
  const rig = await createRig(t);
  rig.config.destinations = [destination('crm'), destination('mail')];
  const believed = new Map<string, Map<string, unknown>>();
  const deliver = async (verdict?: (claim: Claim) => Verdict) => {
    let messages = 0;
    for (const [name, told] of await rig.deliver(verdict)) {
      const state = believed.get(name) ?? new Map<string, unknown>();
      believed.set(name, state);
      for (const { userId, traits } of told) {
        messages += 1;
        for (const [key, value] of Object.entries(traits)) state.set(`${key} ${userId}`, value);
      }
    }
    return messages;
  };
  return {
    rig,
    deliver,
    /** The value that a destination has. */
    held: (name: string) =>
      Object.fromEntries([...(believed.get(name) ?? [])].filter(([, value]) => value !== false && value !== null)),
    async run(verdict?: (claim: Claim) => Verdict) {
      tick(rig);
      const reports = await rig.sync.run();
      await deliver(verdict);
      for (const { error } of reports) if (error) throw error;
      return reports.flatMap(({ runs }) => runs);
    },
  };
}

function tick(rig: Rig): void {
  rig.setTime(new Date(rig.time() + 3_600_000).toISOString());
}

t.test('sends the end of a retired audience to a destination that was disabled', async (t) => {
  const { rig, run, deliver, held } = await createWorld(t);
  rig.config.audiences = [audience('a', list('1', '2', '3'))];
  rig.config.traits = [trait('n', "select '1' as user_id, 5 as n")];
  await run();
  rig.config.audiences = [audience('a', list('2', '3'))];
  rig.config.destinations = [destination('crm'), away('mail')];
  await run();
  rig.config.audiences = [];
  rig.config.traits = [];
  await rig.sync.retire('a');
  await rig.sync.retire('n');
  await deliver();
  t.same(held('crm'), {});
  t.same(held('mail'), { 'a 1': true, 'a 2': true, 'a 3': true, 'n 1': 5 });
  t.same(await rig.sync.orphans(), [], 'nobody has to retire it again');
  t.same(await run(), [], 'nothing is sent while it is away');
  rig.config.destinations = [destination('crm'), destination('mail')];
  t.match(await run(), [
    { action: 'withdraw', key: 'a', destinations: ['mail'], sent: 3 },
    { action: 'withdraw', key: 'n', destinations: ['mail'], sent: 1 },
  ]);
  t.same(held('mail'), {});
  t.same(await run(), []);
  t.same(await rig.store.audiences(), [], 'then it is forgotten');
});

t.test('sends the end of a former name to a destination that was away during the rename', async (t) => {
  const { rig, run, held } = await createWorld(t);
  rig.config.audiences = [audience('old', list('1', '2'))];
  await run();
  rig.config.destinations = [destination('crm')];
  rig.config.audiences = [audience('new', list('1', '2'))];
  tick(rig);
  await rig.sync.run(['new'], { renames: true });
  rig.config.destinations = [destination('crm'), destination('mail')];
  await run();
  t.same(held('mail'), { 'new 1': true, 'new 2': true });
  t.same(held('crm'), held('mail'));
});

t.test('restarts an audience for all if it returns before a destination got its end', async (t) => {
  const { rig, run, held } = await createWorld(t);
  rig.config.audiences = [audience('a', list('1', '2'))];
  await run();
  rig.config.destinations = [destination('crm'), away('mail')];
  await rig.sync.retire('a');
  rig.config.audiences = [audience('a', list('2', '3'))];
  t.match(await run(), [{ action: 'sync', first: true, entered: 2, sent: 2, destinations: ['crm'] }]);
  t.same(held('crm'), { 'a 2': true, 'a 3': true });
  rig.config.destinations = [destination('crm'), destination('mail')];
  await run();
  t.same(held('mail'), { 'a 2': true, 'a 3': true });
});

t.test('sends null for a removed trait to a destination that was away', async (t) => {
  const { rig, run, held } = await createWorld(t);
  rig.config.traits = [trait('n', "select unnest(['1', '2']) as user_id, 5 as n, 6 as m")];
  await run();
  rig.config.destinations = [destination('crm'), away('mail')];
  rig.config.traits = [trait('n', "select '1' as user_id, 5 as n")];
  await run();
  await run();
  rig.config.destinations = [destination('crm'), destination('mail')];
  await run();
  t.same(held('mail'), { 'n 1': 5 });
  t.same(held('crm'), { 'n 1': 5 });
});

t.test('sends a dead null again, even after its trait was removed', async (t) => {
  const { rig, run, held } = await createWorld(t);
  rig.config.traits = [trait('n', "select '1' as user_id, 5 as n, 6 as m")];
  await run();
  rig.config.traits = [trait('n', "select '1' as user_id, 5 as n")];
  await run(() => REFUSED);
  await run();
  t.same(held('crm'), { 'n 1': 5 });
});

t.test('keeps a waiting null when a newer change of the same user replaces it', async (t) => {
  const { rig, run, held } = await createWorld(t);
  rig.config.traits = [trait('n', "select '1' as user_id, 5 as n, 6 as m")];
  await run();
  for (const value of [5, 7, 8]) {
    rig.config.traits = [trait('n', `select '1' as user_id, ${value} as n`)];
    tick(rig);
    await rig.sync.run();
  }
  await run();
  t.same(held('crm'), { 'n 1': 8 });
  await run();
  rig.config.traits = [trait('n', "select '1' as user_id, 9 as n")];
  tick(rig);
  await rig.sync.run();
  t.same((await rig.deliver()).get('crm')?.[0]?.traits, { n: 9 }, 'and it is told no longer than needed');
});

t.test('includes destinations that are behind in a plan', async (t) => {
  const { rig, run } = await createWorld(t);
  rig.config.audiences = [audience('a', list('1', '2')), audience('b', list('1'))];
  await run();
  rig.config.destinations = [{ ...destination('crm'), wants: { audiences: ['b'] } }, away('mail')];
  t.match(await rig.sync.plan(['a']), [
    { destinations: [], withdrawn: ['crm'], filtered: ['crm'], away: ['mail'], returning: [], calls: 2 },
  ]);
  await run();
  t.match(await rig.sync.plan(['a', 'b']), [
    { withdrawn: [], filtered: ['crm'] },
    { withdrawn: [], filtered: [] },
  ]);
  await rig.sync.retire('b');
  rig.config.audiences = rig.config.audiences.slice(0, 1);
  rig.config.destinations = [destination('crm'), destination('mail')];
  t.match(await rig.sync.plan(), [
    { key: 'a', destinations: [], newcomers: ['crm', 'mail'], returning: ['mail'], withdrawn: [], away: [], calls: 2 },
  ]);
  t.match(await rig.sync.ended(), [{ key: 'b', lapsed: ['mail'] }]);
});

t.test('sends a dead end again', async (t) => {
  const { rig, run, deliver, held } = await createWorld(t);
  rig.config.audiences = [audience('a', list('1', '2'))];
  await run();
  rig.config.audiences = [audience('a', list('2'))];
  await run(() => REFUSED);
  rig.config.audiences = [];
  tick(rig);
  await rig.sync.retire('a');
  await deliver(({ destination }) => (destination === 'mail' ? REFUSED : { kind: 'delivered' }));
  t.same(held('crm'), {}, 'with the retirement, what had died before');
  t.same(held('mail'), { 'a 1': true, 'a 2': true });
  await run();
  t.same(held('mail'), {});
  await run();
  t.same(await rig.store.audiences(), []);
});

t.test('sends an end again that died, was replayed and died again', async (t) => {
  const { rig, run, deliver, held } = await createWorld(t);
  rig.config.audiences = [audience('a', list('1'))];
  await run();
  rig.config.audiences = [];
  await rig.sync.retire('a');
  const refusedByMail = ({ destination }: Claim): Verdict => (destination === 'mail' ? REFUSED : { kind: 'delivered' });
  await deliver(refusedByMail);
  const letters = await rig.store.deadLetters({ limit: 10 });
  t.equal(await rig.store.replay(letters.map(({ id }) => ({ id, body: null }))), 1);
  tick(rig);
  t.same(await rig.sync.run(), [], 'while the replay waits');
  await deliver(refusedByMail);
  t.same(held('mail'), { 'a 1': true });
  t.match(await run(), [{ action: 'withdraw', key: 'a', destinations: ['mail'], sent: 1 }]);
  t.same(held('mail'), {});
  await run();
  t.same(await rig.store.audiences(), [], 'then it is forgotten');
});

t.test('leaves no dead letters behind when a source changes, and shows them in why', async (t) => {
  const { rig, run, held } = await createWorld(t);
  const both = ['personas', 'shop'];
  rig.config.destinations = [destination('crm', both), destination('mail', both)];
  rig.config.audiences = [audience('a', list('1', '2'))];
  await run();
  rig.config.audiences = [audience('a', list('2'))];
  await run(() => REFUSED);
  rig.config.audiences = [audience('a', list('2'), { source: 'shop' })];
  t.match((await rig.sync.why('a', '1')).deadLetters, { length: 2 });
  await run();
  t.same(held('crm'), { 'a 2': true });
  t.same(await rig.store.deadLetters({ limit: 10 }), []);
});

t.test("sends false for each member once when a destination's filter drops a key", async (t) => {
  const { rig, run, held } = await createWorld(t);
  rig.config.audiences = [audience('a', list('1', '2', '3')), audience('b', list('1'))];
  rig.config.traits = [trait('n', "select '1' as user_id, 5 as n")];
  await run();
  rig.config.audiences = [audience('a', list('1', '2', '4')), audience('b', list('1'))];
  rig.config.destinations = [destination('crm'), { ...destination('mail'), wants: { audiences: ['b'] } }];
  t.match(await run(), [
    { key: 'a', action: 'withdraw', destinations: ['mail'], sent: 3 },
    { key: 'a', action: 'sync', destinations: ['crm'], sent: 2 },
    { key: 'b', action: 'sync', destinations: ['crm', 'mail'], sent: 0 },
    { key: 'n', action: 'withdraw', destinations: ['mail'], sent: 1 },
    { key: 'n', action: 'sync', sent: 0 },
  ]);
  t.same(held('mail'), { 'b 1': true });
  t.match(await run(), [{ sent: 0 }, { sent: 0 }, { sent: 0 }], 'once');
  rig.config.destinations = [destination('crm'), destination('mail')];
  t.match(await run(), [
    { key: 'a', action: 'sync', sent: 0 },
    { key: 'a', action: 'backfill', destinations: ['mail'], sent: 3 },
    { key: 'b', action: 'sync', sent: 0 },
    { key: 'n', action: 'sync', sent: 0 },
    { key: 'n', action: 'backfill', destinations: ['mail'], sent: 1 },
  ]);
  t.same(held('mail'), held('crm'));
});

t.test('sends false for a dropped key once its destination is back', async (t) => {
  const { rig, run, held } = await createWorld(t);
  rig.config.audiences = [audience('a', list('1', '2'))];
  await run();
  rig.config.destinations = [destination('crm'), { ...away('mail'), wants: { audiences: [] } }];
  rig.config.audiences = [audience('a', list('2'))];
  await run();
  t.same(held('mail'), { 'a 1': true, 'a 2': true });
  rig.config.destinations = [destination('crm'), { ...destination('mail'), wants: { audiences: [] } }];
  await run();
  t.same(held('mail'), {});
  rig.config.audiences = [];
  await rig.sync.retire('a');
  t.match(await run(), [], 'and its end tells it nothing');
});

t.test("sends dead changes again as false if the destination's filter drops the audience", async (t) => {
  const { rig, run, held } = await createWorld(t);
  rig.config.audiences = [audience('a', list('1', '2'))];
  await run();
  rig.config.audiences = [audience('a', list('2'))];
  await run(() => REFUSED);
  rig.config.destinations = [destination('crm'), { ...destination('mail'), wants: { audiences: [] } }];
  await run(({ userId }) => (userId === '2' ? REFUSED : { kind: 'delivered' }));
  t.same(held('mail'), { 'a 2': true });
  await run();
  t.same(held('mail'), {});
});

t.test('sends everything to a destination once its filter allows identifies', async (t) => {
  const { rig, run, held } = await createWorld(t);
  rig.config.audiences = [audience('a', list('1', '2'))];
  await run();
  rig.config.audiences = [audience('a', list('2'))];
  rig.config.destinations = [destination('crm'), { ...destination('mail'), wants: { types: ['track'] } }];
  t.match(await run(), [{ destinations: ['crm'], sent: 1 }]);
  t.same(held('mail'), { 'a 1': true, 'a 2': true });
  rig.config.destinations = [destination('crm'), destination('mail')];
  await run();
  t.same(held('mail'), { 'a 2': true });
});
