import t, { type Test } from 'tap';
import type { Progress } from '../../jobs/index.ts';
import { waitForRoom } from '../../jobs/run/destination-room.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import type { EndpointState, Run } from '../../src/store/port.ts';
import { ManualClock } from '../helpers/clock.ts';
import { audience, createRig, destination, type Rig, type Told, values } from './helpers/rig.ts';

/** Members from `first` to `last`. */
const members = (first: number, last: number) => `select unnest(range(${first}, ${last + 1}))::varchar as user_id`;

const endpointOf = (name: string): EndpointState => {
  const [endpoint] = destination(name).endpoints;
  return { endpoint: endpoint?.id ?? '', destination: name, pausedAt: null, deadSince: null };
};

/** Delivers one destination's queue; other processes may queue held-out messages in the meantime. */
async function deliverTo(rig: Rig, name: string): Promise<Told[]> {
  const told: Told[] = [];
  const owner = await rig.store.join(60_000);
  for (;;) {
    const { claims } = await rig.store.claim(owner, [{ destination: name, limit: 1_000, order: 'usual' }]);
    const taken = claims.flat();
    told.push(...taken.map(({ body }) => JSON.parse(body) as Told));
    await rig.store.settle(
      owner,
      taken.map((claim) => ({ claim, verdict: { kind: 'delivered' }, attempts: [] })),
    );
    if (taken.length === 0 && (await rig.store.requeue(name, 1_000)) === 0) break;
  }
  await rig.store.leave(owner);
  return told;
}

/** Delivers to these destinations whenever a run waits, and collects everything that they were sent. */
function deliverWhileWaiting(rig: Rig, names: readonly string[]) {
  const told = new Map(names.map((name) => [name, [] as Told[]]));
  const waits: Progress[] = [];
  const deliveries: Promise<unknown>[] = [];
  rig.onProgress = (step) => {
    if (step.phase !== 'wait') return;
    waits.push(step);
    for (const name of names) {
      deliveries.push(deliverTo(rig, name).then((more) => told.get(name)?.push(...more)));
    }
  };
  /** Resolves once started deliveries are done. */
  const delivered = () => Promise.all(deliveries);
  return { told, waits, delivered };
}

t.test('waits while a full queue drains, and holds nothing out', async (t) => {
  const rig = await createRig(t, { maxQueued: 6_000 });
  rig.config.audiences = [audience('a', members(1, 10_000))];
  const { told, waits, delivered } = deliverWhileWaiting(rig, ['crm']);
  t.match(await rig.sync.run(), [{ error: null, runs: [{ state: 'done', sent: 10_000 }] }]);
  t.match(waits[0], { key: 'a', waitsFor: ['crm'] });
  t.same(await rig.store.deadLetters({ limit: 1 }), []);
  await delivered();
  const rest = await deliverTo(rig, 'crm');
  t.equal(Object.keys(values([...(told.get('crm') ?? []), ...rest], 'a')).length, 10_000);
});

t.test('stops a run that waits for a full queue, and continues it later', async (t) => {
  const rig = await createRig(t, { maxQueued: 100 });
  rig.config.audiences = [audience('a', members(1, 250))];
  rig.onProgress = ({ phase }) => {
    if (phase === 'wait') void rig.sync.stop();
  };
  const message = 'a: Rollcall stopped before the run was over; the next one goes on with it.';
  t.match(await rig.sync.run(), [{ error: { code: 'stopping', message } }]);
  t.match(await rig.store.runs({ limit: 1 }), [{ state: 'sending', sent: 100 }]);
  const { told, delivered } = deliverWhileWaiting(rig, ['crm']);
  await rig.another().run();
  await delivered();
  const rest = await deliverTo(rig, 'crm');
  t.equal([...(told.get('crm') ?? []), ...rest].length, 250);
});

for (const closed of ['deadSince', 'pausedAt'] as const) {
  t.test(`a full destination (${closed}) leaves the run, and is told what it missed once it is back`, async (t) => {
    const rig = await createRig(t, { maxQueued: 100 });
    rig.config.destinations = [destination('crm'), destination('mail')];
    const learned = new Map<string, unknown>();
    const learn = (told: readonly Told[]) => {
      for (const [user, value] of Object.entries(values(told, 'a'))) learned.set(user, value);
    };
    rig.config.audiences = [audience('a', members(1, 50))];
    await rig.sync.run();
    learn(await deliverTo(rig, 'crm'));
    await deliverTo(rig, 'mail');

    rig.config.audiences = [audience('a', members(41, 340))];
    await rig.store.markEndpoint({ ...endpointOf('crm'), [closed]: rig.time() });
    const { told, delivered } = deliverWhileWaiting(rig, ['mail']);
    tick(rig);
    t.match(await rig.sync.run(), [{ error: null, runs: [{ state: 'done', destinations: ['mail'], sent: 330 }] }]);
    await delivered();
    await deliverTo(rig, 'mail').then((more) => told.get('mail')?.push(...more));
    t.equal(told.get('mail')?.length, 330, 'the others get theirs');
    t.match(await rig.store.audience('a'), { destinations: ['mail'], lapsed: ['crm'] });

    tick(rig);
    t.match((await rig.sync.run())[0]?.runs, [{ action: 'sync', sent: 0 }], 'nothing is sent to it meanwhile');
    await rig.store.markEndpoint(endpointOf('crm'));
    t.match((await rig.sync.run())[0]?.runs, [{ action: 'sync' }], 'its queue is full still');

    learn(await deliverTo(rig, 'crm'));
    const again = deliverWhileWaiting(rig, ['crm', 'mail']);
    tick(rig);
    const [report] = await rig.sync.run();
    t.match(report?.runs, [{ action: 'sync' }, { action: 'backfill', destinations: ['crm'], state: 'done' }]);
    await again.delivered();
    learn(again.told.get('crm') ?? []);
    learn(await deliverTo(rig, 'crm'));
    t.match(await rig.store.audience('a'), { destinations: ['mail', 'crm'], lapsed: [] });
    const wrong = [...learned].filter(([user, isMember]) => isMember !== Number(user) > 40);
    t.same(wrong, []);
    t.equal(learned.size, 340);
  });
}

t.test('drops a destination that is disabled while a run waits for it', async (t) => {
  const rig = await createRig(t, { maxQueued: 100 });
  rig.config.audiences = [audience('a', members(1, 150))];
  rig.onProgress = ({ phase }) => {
    if (phase === 'wait') rig.config.destinations = [{ ...destination('crm'), enabled: false }];
  };
  t.match(await rig.sync.run(), [{ error: null, runs: [{ state: 'done', destinations: [] }] }]);
  t.match(await rig.store.audience('a'), { destinations: [], lapsed: ['crm'] });
});

t.test('drops no destination from the last run of an audience', async (t) => {
  const rig = await createRig(t, { maxQueued: 100 });
  rig.config.audiences = [audience('a', members(1, 100))];
  await rig.sync.run();
  await deliverTo(rig, 'crm');
  rig.config.audiences = [audience('b', members(1, 100)), ...rig.config.audiences];
  tick(rig);
  await rig.sync.run(['b']);
  await rig.store.markEndpoint({ ...endpointOf('crm'), deadSince: rig.time() });
  t.match(await rig.sync.retire('a'), { error: null, runs: [{ action: 'retire', state: 'done', sent: 100 }] });
  t.match(await rig.store.backlog(), [{ destination: 'crm', pending: 100, heldOut: 100 }]);
  const told = values(await deliverTo(rig, 'crm'), 'a');
  t.equal(Object.values(told).filter((value) => value === false).length, 100);
});

t.test('leaves held-out messages to be queued automatically, unchanged', async (t) => {
  const rig = await createRig(t, { maxQueued: 1 });
  rig.config.audiences = [audience('a', members(1, 1))];
  await rig.sync.run();
  const change = (
    await rig.store.claim(await rig.store.join(1_000), [{ destination: 'crm', limit: 1, order: 'usual' }])
  ).claims;
  t.equal(change.flat().length, 1);
  rig.config.audiences = [audience('a', `${members(1, 1)} where false`)];
  // A queue that is full by what is in flight: the retiring run holds its change out.
  await rig.store.markEndpoint({ ...endpointOf('crm'), deadSince: rig.time() });
  await rig.sync.retire('a');
  const [letter] = await rig.store.deadLetters({ reason: 'queue_full', limit: 10 });
  t.ok(letter);
  rig.config.audiences = [audience('a', members(1, 0))];
  tick(rig);
  await rig.sync.run();
  const { id, body, messageId, reason } = letter ?? {};
  t.match(await rig.store.deadLetters({ limit: 10 }), [{ id, body, messageId, reason }]);
});

t.test("waits while the store's disk is full, reports it, and continues", async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', members(1, 3))];
  const steps: Progress[] = [];
  rig.onProgress = (step) => void steps.push(step);
  let failures = 4;
  const sync = rig.another({
    clock: { ...rig.clock, sleep: async () => {} },
    accept: async (...parameters) => {
      if (failures-- > 0) throw new RollcallError('store_full', 'The disk is full.');
      return rig.accept(...parameters);
    },
  });
  t.match(await sync.run(), [{ error: null, runs: [{ state: 'done', sent: 3 }] }]);
  const waits = steps.filter(({ phase }) => phase === 'wait');
  t.equal(waits.length, 4);
  t.match(waits[0], { key: 'a', storeError: 'store_full' });
  t.same(values((await rig.deliver()).get('crm'), 'a'), { 1: true, 2: true, 3: true });
});

t.test('stops waiting for a queue that stands still for ten minutes', async (t: Test) => {
  const clock = new ManualClock();
  const row = { destination: 'crm', pending: 5, dead: 0, queued: 5, heldOut: 0 };
  const waits: Progress[] = [];
  const room = waitForRoom(
    {
      store: { maxQueued: 5, backlog: async () => [row], endpoints: async () => [] } as never,
      config: () => ({ destinations: [destination('crm'), destination('mail')] }) as never,
      clock,
      log: { debug() {}, info() {}, warn() {}, error() {} },
      signal: new AbortController().signal,
      onProgress: (step) => waits.push(step),
    },
    { id: 'r', key: 'a', action: 'sync' } as Run,
    ['crm', 'mail'],
    3,
  );
  let done = false;
  void room.finally(() => {
    done = true;
  });
  const from = clock.monotonic();
  while (!done) {
    clock.advance(1_000);
    await new Promise((resolve) => setImmediate(resolve));
  }
  t.same(await room, { scope: ['mail'], free: 3 });
  t.ok(clock.monotonic() - from >= 10 * 60_000);
  t.ok(waits.length > 100);
});

function tick(rig: Rig): void {
  rig.setTime(new Date(rig.time() + 3_600_000).toISOString());
}
