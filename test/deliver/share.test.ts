import type { ServerResponse } from 'node:http';
import fc from 'fast-check';
import isEqual from 'lodash/isEqual.js';
import t, { type Test } from 'tap';
import { SERVERS_LIMIT, shareOf } from '../../src/deliver/share.ts';
import type { Destination } from '../../src/destination.ts';
import { ManualClock } from '../helpers/clock.ts';
import { testDatabase } from '../helpers/database.ts';
import { Receiver, status } from './helpers/receiver.ts';
import { destination, Rig } from './helpers/rig.ts';

/** Ids as stores give them out; some are the same in the 32 bits that are hashed. */
const owner = fc.oneof(
  fc.nat(1_000),
  fc.maxSafeNat(),
  fc.tuple(fc.nat(0xffff), fc.nat(3)).map(([upper, lower]) => upper * 2 ** 32 + lower),
);
const owners = fc.uniqueArray(owner, { minLength: 1, maxLength: 40 });

t.test('gives every destination one leader and at most four servers, who agree on their number', async (t) => {
  fc.assert(
    fc.property(fc.string(), owners, (name, ids) => {
      const shares = ids.flatMap((id) => shareOf(name, id, ids) ?? []);
      const servers = Math.min(SERVERS_LIMIT, ids.length);
      return (
        shares.length === servers &&
        shares.every((share) => share.of === servers) &&
        shares.filter(({ leads }) => leads).length === 1
      );
    }),
  );
  t.pass();
});

t.test('lets others keep their destinations when a process leaves', async (t) => {
  fc.assert(
    fc.property(fc.string(), owners, (name, ids) => {
      const rest = ids.slice(1);
      return rest.every((id) => shareOf(name, id, ids) === null || shareOf(name, id, rest) !== null);
    }),
  );
  t.pass();
});

t.test('chooses servers regardless of the order in which processes are seen', async (t) => {
  const servers = (name: string, ids: readonly number[]) => ids.filter((id) => shareOf(name, id, ids)).sort();
  const seen = owners.chain((ids) => fc.tuple(fc.constant(ids), fc.shuffledSubarray(ids, { minLength: ids.length })));
  fc.assert(
    fc.property(fc.string(), seen, (name, [ids, others]) => isEqual(servers(name, ids), servers(name, others))),
  );
  t.pass();
});

t.test('exceeds a rate limit at most by the part of a process that others do not know yet', async (t) => {
  const part = (name: string, id: number, ids: readonly number[]) => 1 / (shareOf(name, id, ids)?.of ?? Infinity);
  fc.assert(
    fc.property(fc.string(), owners, (name, [missing = 0, ...there]) => {
      const all = [missing, ...there];
      const parts = there.map((id) => Math.max(part(name, id, all), part(name, id, there)));
      const sum = parts.reduce((total, each) => total + each, part(name, missing, all));
      return sum <= 1 + part(name, missing, all) + 1e-9;
    }),
  );
  t.pass();
});

t.test('serves its part of many destinations', async (t) => {
  const ids = Array.from({ length: 80 }, (_, index) => index + 1);
  const served = ids.map(
    (id) => Array.from({ length: 1_000 }, (_, index) => shareOf(`crm-${index}`, id, ids)).filter(Boolean).length,
  );
  t.ok(Math.min(...served) > 20 && Math.max(...served) < 90, `50 on average: ${Math.min(...served)} at least`);
});

/** So many processes on one database, which know of each other. */
async function processes(t: Test, count: number, destinations: readonly Destination[]): Promise<Rig[]> {
  const database = await testDatabase(t, new ManualClock());
  const rigs: Rig[] = [];
  for (let index = 0; index < count; index += 1) rigs.push(await Rig.start(t, { destinations, database }));
  // A heartbeat tells the first ones of the last.
  await rigs[0]?.pass(6_000);
  return rigs;
}

const attempts = ({ settlements }: Rig) =>
  settlements.flatMap((settlement) => settlement.attempts).filter(({ outcome }) => outcome !== 'skipped').length;

for (const count of [1, 2, 9]) {
  t.test(`sends sixteen requests at once to a new endpoint, from ${count} as from one`, async (t) => {
    const open: ServerResponse[] = [];
    const receiver = await Receiver.start(t, (response) => void open.push(response));
    const rigs = await processes(t, count, [destination(receiver.url)]);
    await rigs[0]?.send(100);
    await rigs[0]?.pass(2_000);
    await receiver.received(16);
    await rigs[0]?.calm();
    t.equal(receiver.requests.length, 16);
    receiver.answer = status(200);
    for (const response of open.splice(0)) response.end();
    // What is left may wait for a process to look for it again.
    await rigs[0]?.passUntil(() => receiver.requests.length === 100);
  });
}

t.test('probes a dead endpoint from one process, and delivers from all once it recovers', async (t) => {
  const receiver = await Receiver.start(t, status(500));
  const [a, b] = (await processes(t, 2, [destination(receiver.url)])) as [Rig, Rig];
  await a.send(200);
  while ((await a.store.endpoints()).length === 0) await a.pass(1_000);
  await a.pass(4_000);
  const before = [attempts(a), attempts(b)];
  await a.passQuickly(120_000);
  const probes = [attempts(a), attempts(b)].map((count, index) => count - (before[index] ?? 0));
  t.match(probes.sort(), [0, Number], 'one of them made none');
  t.ok((probes[1] ?? 0) >= 3 && (probes[1] ?? 0) <= 20, `the other made ${probes[1]}`);
  const open: ServerResponse[] = [];
  receiver.answer = (response) => void open.push(response);
  const seen = () => a.delivered() + b.delivered();
  while (seen() < 200) {
    // Every answer takes a second, in which the other hears that it lives.
    await a.pass(1_000);
    for (const response of open.splice(0)) response.end();
  }
  t.same(await a.store.endpoints(), []);
  t.ok(a.delivered() > 0 && b.delivered() > 0, `${a.delivered()} and ${b.delivered()}`);
});

t.test('keeps to one rate limit over two processes', async (t) => {
  const receiver = await Receiver.start(t);
  const [a] = (await processes(t, 2, [destination(receiver.url, { ratePerSecond: 20 })])) as [Rig, Rig];
  const before = receiver.requests.length;
  await a.send(1_000);
  await a.pass(10_000, 100);
  const rate = (receiver.requests.length - before) / 10;
  t.ok(rate > 12 && rate <= 21, `${rate} a second`);
});

t.test('serves a destination from four of six processes, within its rate limit', async (t) => {
  const receiver = await Receiver.start(t);
  const names = ['crm', 'mail', 'ads'];
  const rigs = await processes(
    t,
    6,
    names.map((name) => destination(receiver.url, { name, ratePerSecond: 20 })),
  );
  await rigs[0]?.send(400);
  await rigs[0]?.pass(10_000, 100);
  for (const name of names) {
    const delivered = rigs.map(
      ({ settlements }) =>
        settlements.filter(({ claim, verdict }) => claim.destination === name && verdict.kind === 'delivered').length,
    );
    t.equal(delivered.filter((count) => count > 0).length, 4, delivered.join(', '));
    const all = delivered.reduce((sum, count) => sum + count, 0);
    // Each of the four has a burst of one.
    t.ok(all > 120 && all <= 200 + 4, `${all} of ${name} in ten seconds`);
  }
});
