import { rmSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { conflictKey } from '../../jobs/audience-or-trait.ts';
import { openEngine } from '../../jobs/engines/open.ts';
import type { DeadLetter, Verdict } from '../../src/store/port.ts';
import { audience, createRig, destination, duckdbAt, type Rig, trait, values } from './helpers/rig.ts';

const DEAD: Verdict = { kind: 'dead', reason: 'refused', status: 400, firstAt: null };
const users = (from: number, to: number) => Array.from({ length: to - from }, (_, index) => `u${from + index}`);
const members = (from: number, to: number) =>
  `SELECT user_id FROM (VALUES ${users(from, to)
    .map((user) => `('${user}')`)
    .join(', ')}) AS m (user_id)`;

/** The sync with its engine's openings and look-ups counted. */
function counted(rig: Rig) {
  const counts = { opened: 0, lookups: 0 };
  const sync = rig.another({
    openEngine: async (config, options) => {
      counts.opened += 1;
      const engine = await openEngine(config, options);
      const lookup: typeof engine.lookup = (...args) => {
        counts.lookups += 1;
        return engine.lookup(...args);
      };
      return { ...engine, lookup };
    },
  });
  return { counts, sync };
}

async function letters(rig: Rig): Promise<readonly DeadLetter[]> {
  return rig.store.deadLetters({ limit: 10_000 });
}

t.test('gives a thousand dead changes current values with one opening, and one look-up per audience', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', members(0, 600)), audience('b', members(0, 400))];
  rig.config.traits = [trait('score', `SELECT user_id, 1 AS score FROM (${members(0, 10)})`)];
  await rig.sync.run();
  await rig.deliver(() => DEAD);
  const dead = await letters(rig);
  t.equal(dead.length, 1_010);

  const { counts, sync } = counted(rig);
  const bodies = await sync.currentBodies(dead);
  t.same(counts, { opened: 1, lookups: 3 });
  const replays = dead.map(({ id }, place) => ({ id, body: bodies[place] as string }));
  t.equal(await rig.store.replay(replays), 1_010);
  const told = (await rig.deliver()).get('crm')?.map((body) => JSON.parse(JSON.stringify(body)));
  const about = (key: string) =>
    values(
      told?.filter(({ context }) => context.personas.computation_key === key),
      key,
    );
  t.same(about('a'), Object.fromEntries(users(0, 600).map((user) => [user, true])));
  t.same(about('b'), Object.fromEntries(users(0, 400).map((user) => [user, true])));
  t.same(about('score'), Object.fromEntries(users(0, 10).map((user) => [user, 1])));
  t.same(await letters(rig), []);
});

t.test('replays other messages unchanged and in order', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', members(0, 1))];
  await rig.sync.run();
  const letter = (conflict: string | null) => ({ destination: 'crm', conflict, messageId: 'm1', body: '{}' });
  const bodies = await rig.sync.currentBodies([letter(null), letter(conflictKey('a', 'u0')), letter('x')]);
  t.match(bodies, [null, /"messageId":"m1","userId":"u0","traits":\{"a":true\}/, null]);
});

t.test('replays a retired audience as false, and its traits as null', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', members(0, 1))];
  rig.config.traits = [trait('score', `SELECT user_id, 1 AS score, 'x' AS grade FROM (${members(0, 1)})`)];
  await rig.sync.run();
  await rig.deliver(() => DEAD);
  for (const key of ['a', 'score']) await rig.sync.retire(key);
  await rig.deliver(() => DEAD);
  const bodies = await rig.sync.currentBodies(await letters(rig));
  t.same(
    bodies.map((body) => JSON.parse(body as string).traits),
    [{ a: false }, { score: null, grade: null }],
  );
});

t.test('sends no exits if the snapshot is lost', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', members(0, 2))];
  await rig.sync.run();
  await rig.deliver(() => DEAD);
  rmSync(join(rig.config.folder, 'audiences.duckdb'));
  t.match(await rig.sync.currentBodies(await letters(rig)), [{ code: 'snapshot_lost' }, { code: 'snapshot_lost' }]);
});

t.test("holds back only the letters of an engine that can't be reached", async (t) => {
  const rig = await createRig(t);
  const pond = duckdbAt(join(rig.config.folder, 'pond.duckdb'));
  rig.config.engines = { ...rig.config.engines, pond };
  rig.config.audiences = [audience('a', members(0, 1), { engine: 'pond' }), audience('b', members(0, 1))];
  await rig.sync.run();
  await rig.deliver(() => DEAD);
  delete rig.config.engines['pond'];
  const { counts, sync } = counted(rig);
  const unreachable = new Map();
  for (const opened of [1, 2]) {
    const bodies = await sync.currentBodies(await letters(rig), unreachable);
    t.match(bodies, [{ code: 'engine_unreachable' }, /"b":true/]);
    t.equal(counts.opened, opened);
  }
  rig.config.engines = { ...rig.config.engines, pond };
  t.match(await sync.currentBodies(await letters(rig), unreachable), [{ code: 'engine_unreachable' }, /"b":true/]);
  t.match(await sync.currentBodies(await letters(rig)), [/"a":true/, /"b":true/], 'the next replay tries again');
});

t.test('replays the values of a run that is being sent', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', members(0, 2))];
  rig.config.traits = [trait('score', `SELECT 'u0' AS user_id, 1 AS score, 'x' AS grade`)];
  await rig.sync.run();
  await rig.deliver(() => DEAD);
  const dead = await letters(rig);
  rig.config.audiences = [audience('a', members(1, 20))];
  rig.config.traits = [trait('score', `SELECT 'u0' AS user_id, 2 AS score`)];
  const sending = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<never>();
  let accepting = 0;
  const another = rig.another({
    accept: () => {
      accepting += 1;
      if (accepting === 2) sending.resolve();
      return gate.promise;
    },
  });
  const running = Promise.all([another.run(['a']), another.run(['score'])]);
  await sending.promise;
  const bodies = await another.currentBodies(dead);
  t.same(
    bodies.map((body) => JSON.parse(body as string).traits),
    [{ a: false }, { a: true }, { score: 2, grade: null }],
  );
  gate.reject(new Error('The process ends.'));
  await running;
});

t.test('replays the values of the first run after a retirement, which is being sent', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', members(0, 2))];
  rig.config.destinations = [destination('crm'), destination('mail')];
  await rig.sync.run();
  // The record of the former life stays until all know of its end.
  rig.config.destinations = [destination('crm')];
  await rig.sync.retire('a');
  await rig.deliver();
  const failing = rig.another({
    openEngine: async (config, options) => ({
      ...(await openEngine(config, options)),
      commit: () => Promise.reject(new Error('The process ends.')),
    }),
  });
  t.match(await failing.run(), [{ error: { message: /The process ends/ } }]);
  await rig.deliver(() => DEAD);
  const dead = await letters(rig);
  const bodies = await rig.sync.currentBodies(dead);
  t.match(
    bodies.map((body) => JSON.parse(body as string)),
    dead.map(() => ({ traits: { a: true }, context: { personas: { reason: 'first_sync' } } })),
  );
  t.equal(dead.length, 2);
});

t.test('replays false to a destination whose filter now excludes the audience', async (t) => {
  const rig = await createRig(t);
  rig.config.destinations = [destination('crm'), destination('mail')];
  rig.config.audiences = [audience('a', members(0, 1))];
  rig.config.traits = [trait('score', `SELECT 'u0' AS user_id, 1 AS score`)];
  await rig.sync.run();
  await rig.deliver(() => DEAD);
  rig.config.destinations = [destination('crm'), { ...destination('mail'), wants: { audiences: [] } }];
  const told = async () => {
    const dead = await letters(rig);
    const bodies = await rig.sync.currentBodies(dead);
    return dead.map((letter, place) => [letter.destination, JSON.parse(bodies[place] as string).traits]).toSorted();
  };
  const right = [
    ['crm', { a: true }],
    ['crm', { score: 1 }],
    ['mail', { a: false }],
    ['mail', { score: null }],
  ];
  t.same(await told(), right, 'before a sync has said so');
  await rig.sync.run();
  await rig.deliver(() => DEAD);
  t.same(await told(), right, 'and after');
  rig.config.destinations = [destination('crm')];
  t.same(await told(), right, 'also once it is gone, because nobody would tell it of a change');
  rig.config.destinations = [destination('crm'), destination('mail')];
  t.same(
    await told(),
    right,
    'also once it wants it again: the next sync tells it of members, and of nobody who leaves until then',
  );
});

t.test('replays nothing to a destination that was away before its next run, which sends what died', async (t) => {
  const mail = destination('mail');
  const off = { ...mail, enabled: false };
  /** What happens to u0, whose change died, until the destination is back. u0 is a member before and after. */
  const cases: Record<string, (rig: Rig, replay: () => Promise<void>) => Promise<void>> = {
    'away and without the audience': async (rig, replay) => {
      rig.config.destinations = [destination('crm'), { ...off, wants: { audiences: [] } }];
      await rig.sync.run();
      await replay();
    },
    'back, while the member is out': async (rig, replay) => {
      rig.config.destinations = [destination('crm'), off];
      rig.config.audiences = [audience('a', members(1, 2))];
      await rig.sync.run();
      rig.config.destinations = [destination('crm'), mail];
      await replay();
      rig.config.audiences = [audience('a', members(0, 1))];
    },
    'away, while the audience is retired': async (rig, replay) => {
      rig.config.destinations = [destination('crm'), off];
      await rig.sync.retire('a');
      await replay();
    },
  };
  for (const [name, happens] of Object.entries(cases)) {
    const rig = await createRig(t);
    rig.config.destinations = [destination('crm'), mail];
    rig.config.audiences = [audience('a', members(0, 1))];
    await rig.sync.run();
    await rig.deliver((claim) => (claim.destination === 'mail' ? DEAD : { kind: 'delivered' }));
    await happens(rig, async () => {
      const dead = await letters(rig);
      const bodies = await rig.sync.currentBodies(dead);
      t.match(bodies, [{ code: 'destination_away' }], name);
      const sent = dead.flatMap(({ id }, at) => (typeof bodies[at] === 'string' ? [{ id, body: bodies[at] }] : []));
      await rig.store.replay(sent);
    });
    rig.setTime('2026-03-01T13:00:00Z');
    rig.config.destinations = [destination('crm'), mail];
    await rig.sync.run();
    t.same(values((await rig.deliver()).get('mail'), 'a'), { u0: true }, name);
  }
});

t.test('offers nothing that died to a destination that is back, before the run that catches it up', async (t) => {
  const rig = await createRig(t);
  const mail = destination('mail');
  rig.config.destinations = [destination('crm'), mail];
  rig.config.audiences = [audience('a', members(0, 1))];
  await rig.sync.run();
  await rig.deliver(({ destination }) => (destination === 'mail' ? DEAD : { kind: 'delivered' }));
  rig.config.destinations = [destination('crm'), { ...mail, enabled: false }];
  rig.config.audiences = [audience('a', members(1, 2))];
  await rig.sync.run();
  await rig.deliver();
  rig.setTime('2026-03-01T13:00:00Z');
  rig.config.destinations = [destination('crm'), mail];
  rig.config.audiences = [audience('a', members(0, 1))];
  const dying = rig.another({
    accept: async (source, messages, options) => {
      const run = await rig.store.run(options?.step?.run ?? '');
      if (run?.action === 'backfill') throw new Error('The process ends.');
      return rig.accept(source, messages, options);
    },
  });
  await dying.run();
  t.equal((await letters(rig)).length, 1, 'its letter waits');
  t.same((await rig.deliver()).get('mail'), []);
  await rig.sync.run();
  t.same(values((await rig.deliver()).get('mail'), 'a'), { u0: true });
  t.same(await letters(rig), []);
});

t.test('replays members to others while a run ends the audience for one destination', async (t) => {
  const rig = await createRig(t);
  rig.config.destinations = [destination('crm'), destination('mail')];
  rig.config.audiences = [audience('a', members(0, 1))];
  await rig.sync.run();
  await rig.deliver((claim) => (claim.destination === 'crm' ? DEAD : { kind: 'delivered' }));
  const dead = await letters(rig);
  rig.config.destinations = [destination('crm'), { ...destination('mail'), wants: { audiences: [] } }];
  const dying = rig.another({ accept: () => Promise.reject(new Error('The process ends.')) });
  await dying.run();
  t.match(await rig.store.runs({ key: 'a', states: ['sending'], limit: 1 }), [{ action: 'withdraw' }]);
  t.match(await rig.sync.currentBodies(dead), [/"traits":\{"a":true\}/]);
});
