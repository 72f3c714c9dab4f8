import type { ServerResponse } from 'node:http';
import t from 'tap';
import { type Logger, silentLogger } from '../../../src/kernel/log.ts';
import { ManualClock } from '../../helpers/clock.ts';
import { testDatabase } from '../../helpers/database.ts';
import { Receiver, status } from '../helpers/receiver.ts';
import { destination, message, Rig } from '../helpers/rig.ts';

for (const [kind, answer] of [
  ['hangs', () => {}],
  ['always answers 500', status(500)],
  ['drops every connection', (response: ServerResponse) => void response.destroy()],
] as const) {
  t.test(`protects others from an endpoint that ${kind}`, async (t) => {
    const bad = await Receiver.start(t, answer);
    const good = await Receiver.start(t);
    const names = ['a', 'b', 'c', 'd'];
    const destinations = [
      destination(bad.url, { name: 'bad' }),
      ...names.map((name) => destination(good.url, { name })),
    ];
    const rig = await Rig.start(t, { destinations });
    await rig.send(500);
    await rig.until(() => names.every((name) => rig.delivered(name) === 500));
    t.equal(good.requests.length, 4 * 500, 'the others have everything while no time has passed');
    t.ok(bad.requests.length <= 500);
    const from = rig.clock.now();
    while ((await rig.store.endpoints()).length === 0) await rig.pass(500, 500);
    t.ok(rig.clock.now() - from <= 10_000, 'it is known to be dead within seconds');
    const before = bad.requests.length;
    for (let minute = 0; minute < 2; minute += 1) {
      await rig.send(20);
      await rig.pass(60_000, 4_000);
    }
    t.equal(good.requests.length, 4 * 540);
    t.ok(bad.requests.length - before < 20, `a dead one gets probes only (${bad.requests.length - before} in 2 min)`);
  });
}

t.test('sends one, then two, then four requests at once to a recovering endpoint', async (t) => {
  let hangs = true;
  const open: ServerResponse[] = [];
  const receiver = await Receiver.start(t, (response) => {
    if (!hangs) open.push(response);
  });
  const rig = await Rig.start(t, { destinations: [destination(receiver.url)] });
  await rig.send(1_000);
  await receiver.received(16);
  await rig.pass(30_000, 4_000);
  t.match(await rig.store.endpoints(), [{ deadSince: Number }]);
  hangs = false;
  // A probe that hangs ends.
  await rig.pass(4_900);
  while (open.length === 0) {
    await rig.pass(1_000);
    while (rig.attemptsInFlight > 0 && open.length === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  for (let size = 1; size < 16; size *= 2) {
    await rig.calm();
    t.equal(open.length, size, `${size} at once`);
    const next = receiver.requests.length + size * 2;
    for (const response of open.splice(0)) response.end();
    await receiver.received(next);
  }
  t.same(await rig.store.endpoints(), [], 'and it is known to be alive');
  receiver.answer = status(200);
  for (const response of open.splice(0)) response.end();
  await rig.passQuickly(600_000, () => rig.delivered('crm') === 1_000);
  t.same(await rig.backlogOf(0), [{ destination: 'crm', pending: 0, dead: 0, queued: 0, heldOut: 0 }]);
});

t.test('serves thousands of destinations in turn', async (t) => {
  const receiver = await Receiver.start(t);
  const destinations = Array.from({ length: 2_000 }, (_, index) =>
    destination(`${receiver.url}/${index}`, { name: `d${index}`, sources: [index % 2 === 0 ? 'even' : 'odd'] }),
  );
  const rig = await Rig.start(t, { destinations });
  await rig.accept('even', [message(), message()]);
  await rig.accept('odd', [message()]);
  // Some of so many connections at once may fail, and come again.
  await rig.passUntil(() => rig.delivered() === 3_000);
  const perPath = new Map<string, number>();
  for (const { path } of receiver.requests) perPath.set(path, (perPath.get(path) ?? 0) + 1);
  t.equal(perPath.size, 2_000);
  // A delivery that is posted again, since its answer was late, is no turn.
  const firsts = new Map(receiver.requests.map(({ path, headers }) => [headers['idempotency-key'], path]));
  const firstRound = new Set([...firsts.values()].slice(0, 1_900));
  t.ok(firstRound.size > 900, `they take turns (${firstRound.size} different ones first)`);
  await rig.calm();
  const backlog = await rig.store.backlog();
  t.equal(
    backlog.reduce((sum, { pending }) => sum + pending, 0),
    0,
  );
});

t.test('harms no destination of the same source when one is full: it alone is late', async (t) => {
  let takes = false;
  const bad = await Receiver.start(t, (response) => {
    if (takes) response.writeHead(200).end();
  });
  const good = await Receiver.start(t);
  const database = await testDatabase(t, new ManualClock(), { maxQueued: 100 });
  const destinations = [destination(bad.url, { name: 'bad' }), destination(good.url, { name: 'good' })];
  const logged: string[] = [];
  const log = { ...silentLogger, warn: said(logged), info: said(logged) } as unknown as Logger;
  const rig = await Rig.start(t, { destinations, database, log });
  for (let call = 0; call < 160; call += 1) await rig.send(1);
  await rig.until(() => rig.delivered('good') === 160);
  const counters = async () => (await rig.store.backlog()).find((row) => row.destination === 'bad');
  t.match(await counters(), { pending: 100, dead: 60, queued: 100, heldOut: 60 });
  await rig.passUntil(() => logged.some((line) => line.startsWith('The queue is full')));

  takes = true;
  await rig.passUntil(() => rig.delivered('bad') === 160);
  await rig.passUntil(() => logged.some((line) => line.startsWith('The queue has drained')));
  while (((await counters())?.pending ?? 0) > 0) await rig.pass(1_000);
  t.match(await counters(), { pending: 0, dead: 0, queued: 0, heldOut: 0 });
  t.equal(logged.filter((line) => line.startsWith('The queue')).length, 2, 'said once each');
  const values = (receiver: Receiver) =>
    receiver.requests.map(
      ({ body }) => (JSON.parse(body.toString()) as { properties: { value: number } }).properties.value,
    );
  const sent = [...new Set(values(good))].toSorted((a, b) => a - b);
  t.same(
    [...new Set(values(bad))].toSorted((a, b) => a - b),
    sent,
    'each of them',
  );
  const [firstHeldOut = 0] = sent.slice(100);
  const last = [...new Set(values(bad))].slice(-40);
  t.ok(
    last.every((value) => value >= firstHeldOut),
    'what was held out comes last',
  );
  await rig.stopInTime();
});

const said =
  (lines: string[]) =>
  (...[fields, text]: readonly unknown[]) =>
    void lines.push(String(text ?? fields));
