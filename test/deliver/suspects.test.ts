import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { DestinationQueue } from '../../src/deliver/destination-queue.ts';
import { Suspects } from '../../src/deliver/suspects.ts';
import { silentLogger } from '../../src/kernel/log.ts';
import type { Claim } from '../../src/store/port.ts';
import { accept, claim, message } from '../contract/store-fixture.ts';
import { ManualClock } from '../helpers/clock.ts';
import { type TestDatabase, testDatabase } from '../helpers/database.ts';
import { Receiver, status } from './helpers/receiver.ts';
import { message as call, destination, Rig } from './helpers/rig.ts';

const TTL = 20_000;
const STEADY = 10_000;

/** A database that stores of several processes are opened on. */
function database(t: Test): Promise<TestDatabase> {
  return testDatabase(t, new ManualClock(), { path: join(t.testdir(), 'store.db') });
}

const body = (name: string) => JSON.stringify({ version: 1, type: 'track', userId: 'u', event: name });
const acceptAll = async (database: TestDatabase, names: readonly string[], destinations = ['crm']) =>
  accept(
    await database.open(),
    ...names.map((name) => message({ messageId: `${destinations} ${name}`, body: body(name), destinations })),
  );

/** A process claims all, is about to post those named where that is recorded, and dies; so many times. */
async function crash(database: TestDatabase, times: number, inFlight: readonly string[], name = 'crm'): Promise<void> {
  for (let time = 0; time < times; time += 1) {
    const process = await database.open();
    const owner = await process.join(TTL);
    const claims = await claim(process, owner, { destination: name, limit: 1_000 });
    const isInFlight = (each: Claim) => inFlight.some((event) => each.body === body(event));
    await process.begin(owner, claims.filter(isInFlight));
    await database.idle();
    database.clock.advance(TTL);
    await (await database.open()).rescue();
  }
}

const events = (receiver: Receiver) => receiver.bodies.map(({ event }) => event);
const names = (count: number) => Array.from({ length: count }, (_, index) => `m${index}`);

t.test('after a crash, records posts only for deliveries that the crashed process held', async (t) => {
  const receiver = await Receiver.start(t);
  const store = await database(t);
  const recorded: string[] = [];
  await acceptAll(store, ['held']);
  await crash(store, 1, []);
  const rig = await Rig.start(t, {
    database: store,
    destinations: [destination(receiver.url)],
    workerStore: (inner) =>
      Object.assign(Object.create(inner), {
        begin: (owner: number, claims: readonly Claim[]) => {
          for (const each of claims) recorded.push(JSON.parse(each.body).event);
          t.notOk(events(receiver).includes('held'), 'before the post');
          return inner.begin(owner, claims);
        },
      }),
  });
  await rig.settled(1);
  await rig.send(20);
  await rig.settled(21);
  t.same(recorded, ['held']);
});

t.test('postpones a post that cannot be recorded', async (t) => {
  const receiver = await Receiver.start(t);
  const store = await database(t);
  await acceptAll(store, names(3));
  await crash(store, 1, []);
  let failures = 2;
  const rig = await Rig.start(t, {
    database: store,
    destinations: [destination(receiver.url)],
    workerStore: (inner) =>
      Object.assign(Object.create(inner), {
        begin: async (owner: number, claims: readonly Claim[]) => {
          failures -= 1;
          if (failures < 0) return inner.begin(owner, claims);
          t.equal(receiver.requests.length, 0);
          throw new Error('The database is away.');
        },
      }),
  });
  await rig.settled(3);
  t.same(events(receiver).sort(), names(3));
  t.same(await rig.deadLetters(), []);
});

t.test('posts a delivery alone after two abnormal ends in flight, once the process is steady', async (t) => {
  const held: (() => void)[] = [];
  const company: number[] = [];
  let isHolding = false;
  let open = 0;
  const answer: Receiver['answer'] = (response, { body }) => {
    open += 1;
    if (JSON.parse(body.toString()).event.startsWith('s')) company.push(open - 1);
    const end = () => {
      open -= 1;
      response.end();
    };
    if (isHolding) held.push(end);
    else end();
  };
  const receiver = await Receiver.start(t, answer);
  const other = await Receiver.start(t, answer);
  const store = await database(t);
  await acceptAll(store, ['s1', 's2', ...names(10)]);
  await crash(store, 2, ['s1', 's2']);
  await acceptAll(store, names(5), ['erp']);
  const rig = await Rig.start(t, {
    database: store,
    destinations: [destination(receiver.url), destination(other.url, { name: 'erp', sources: [] })],
  });
  await rig.settled(15);
  t.same([...events(receiver), ...events(other)].sort(), [...names(10), ...names(5)].sort(), 'no one waits for them');
  await rig.pass(STEADY - 1_000);
  t.equal(receiver.requests.length, 10, 'not before the process is steady');
  isHolding = true;
  await rig.send(4);
  await receiver.received(14);
  await rig.pass(2_000);
  t.equal(receiver.requests.length, 14, 'not while anything is in flight');
  isHolding = false;
  for (const end of held) end();
  await rig.passUntil(() => rig.delivered() === 21, 100);
  t.same(company, [0, 0], 'nothing else is in flight');
  t.same(await rig.deadLetters(), []);
});

t.test('does not batch a delivery that is posted alone: everything else would wait', async (t) => {
  const receiver = await Receiver.start(t);
  const other = await Receiver.start(t);
  const store = await database(t);
  await acceptAll(store, ['s1', 's2']);
  await crash(store, 2, ['s1', 's2']);
  const plain = destination(receiver.url);
  const wait = 3_600_000;
  const endpoints = plain.endpoints.map((endpoint) => ({ ...endpoint, batch: { size: 10, wait } }));
  const destinations = [{ ...plain, endpoints }, destination(other.url, { name: 'erp', sources: ['erp'] })];
  const rig = await Rig.start(t, { database: store, destinations });
  await rig.passQuickly(wait - 1, () => rig.delivered() === 2);
  t.equal(receiver.requests.length, 2);
  await rig.accept('erp', [call()]);
  await rig.settled(3);
  t.equal(other.requests.length, 1);
});

t.test('makes a dead letter only of the delivery alone in flight at a third abnormal end', async (t) => {
  const receiver = await Receiver.start(t);
  const store = await database(t);
  await acceptAll(store, ['poison', ...names(200)]);
  await crash(store, 3, ['poison']);
  const rig = await Rig.start(t, { database: store, destinations: [destination(receiver.url)] });
  await rig.passUntil(() => rig.delivered() === 200);
  t.same(events(receiver).sort(), names(200).sort());
  t.match(await rig.deadLetters(), [{ reason: 'undeliverable', body: body('poison'), attempts: 0 }]);
});

t.test('buries none after three abnormal ends with everything in flight, and posts none alone twice', async (t) => {
  const receiver = await Receiver.start(t);
  const store = await database(t);
  await acceptAll(store, names(100));
  await crash(store, 2, names(100));
  // The third comes before a suspect was posted: whatever is claimed, nothing is recorded.
  await crash(store, 1, []);
  const rig = await Rig.start(t, { database: store, destinations: [destination(receiver.url)] });
  await rig.passUntil(() => rig.delivered() === 100);
  t.same(events(receiver).sort(), names(100).sort());
  t.same(await rig.deadLetters(), []);
});

t.test('retries a failed suspect like any other', async (t) => {
  const receiver = await Receiver.start(t, (response, _, index) => status(index === 0 ? 500 : 200)(response, _, index));
  const store = await database(t);
  await acceptAll(store, ['s']);
  await crash(store, 2, ['s']);
  const rig = await Rig.start(t, { database: store, destinations: [destination(receiver.url)] });
  await rig.passUntil(() => rig.verdicts.includes('delivered'));
  t.same(
    rig.verdicts.filter((kind) => kind !== 'release'),
    ['retry', 'delivered'],
  );
  t.equal(rig.settlements.at(-1)?.claim.crashes, 0);
});

t.test('posts suspects for a tenth of the time at most, and 16 in a row', async (t) => {
  const clock = new ManualClock();
  const posted: string[] = [];
  const putOff: number[] = [];
  const resumed: (() => void)[] = [];
  const queue = {
    hasRoom: true,
    nextRoomAt: () => null,
    postAlone: async (claim: Claim) => {
      clock.stall(200);
      posted.push(claim.id);
      suspects.written([{ claim, verdict: { kind: 'delivered' }, attempts: [] }]);
    },
  } as unknown as DestinationQueue;
  const suspects = new Suspects({
    clock,
    log: silentLogger,
    begin: async () => {},
    drained: async () => clock.stall(1_000),
    queueOf: () => queue,
    settle: ({ verdict }) => putOff.push('dueAt' in verdict ? (verdict.dueAt ?? 0) - clock.now() : -1),
    onResumed: () => resumed.shift()?.(),
  });
  const take = (count: number) => {
    for (let n = 0; n < count; n += 1) suspects.take({ id: `d${n}`, destination: 'crm', crashes: 2 } as Claim);
  };
  take(2);
  t.same(putOff.splice(0), [STEADY, STEADY]);
  clock.stall(STEADY);
  const session = new Promise<void>((resolve) => resumed.push(resolve));
  take(20);
  t.same(putOff.splice(0), [1_000, 1_000, 1_000, 1_000], 'those beyond sixteen');
  await session;
  t.equal(posted.length, 16);
  take(1);
  t.same(putOff, [9 * (1_000 + 16 * 200)]);
});

t.test('releases suspects on stop, which does not count as an abnormal end', async (t) => {
  const receiver = await Receiver.start(t);
  const store = await database(t);
  await acceptAll(store, ['s']);
  await crash(store, 2, ['s']);
  const first = await Rig.start(t, { database: store, destinations: [destination(receiver.url)] });
  await first.stopInTime();
  t.same(events(receiver), []);
  const second = await Rig.start(t, { database: store, destinations: [destination(receiver.url)] });
  await second.passUntil(() => second.verdicts.includes('delivered'));
  t.same(events(receiver), ['s']);
});
