import type { ServerResponse } from 'node:http';
import t, { type Test } from 'tap';
import { ManualClock } from '../helpers/clock.ts';
import { testDatabase } from '../helpers/database.ts';
import { Receiver, status } from './helpers/receiver.ts';
import { destination, Rig } from './helpers/rig.ts';

const HOUR = 3_600_000;
const STEPS = [1, -1, 5, -5].map((hours) => ({ name: `${hours > 0 ? '+' : ''}${hours} h`, ms: hours * HOUR }));

const reasons = async (rig: Rig) => (await rig.deadLetters()).map(({ reason }) => reason);

/** A backlog of 100 behind an endpoint that is dead, a few of them tried. */
async function backlog(t: Test, options: Partial<Parameters<typeof Rig.start>[1]> = {}) {
  const receiver = await Receiver.start(t, status(503));
  const rig = await Rig.start(t, { destinations: [destination(receiver.url)], ...options });
  await rig.send(100);
  await rig.untilDead();
  return { receiver, rig };
}

for (const { name, ms } of STEPS) {
  t.test(`expires nothing and goes on at once when the clock is set by ${name} with a backlog`, async (t) => {
    const { receiver, rig } = await backlog(t);
    rig.clock.jump(ms);
    await rig.passQuickly(90_000);
    t.same(await reasons(rig), []);
    receiver.answer = status(200);
    await rig.send(10);
    const recovered = rig.clock.monotonic();
    await rig.passUntil(() => rig.delivered() === 110);
    t.equal(rig.verdicts.filter((kind) => kind === 'delivered').length, 110, 'each once');
    t.ok(rig.clock.monotonic() - recovered < 6 * 60_000, 'no later than backoff allows');
    t.same(await reasons(rig), []);
  });

  t.test(`makes each retry when due when the clock is set by ${name}`, async (t) => {
    const receiver = await Receiver.start(t, status(503, { 'retry-after': '120' }));
    const rig = await Rig.start(t, { destinations: [destination(receiver.url)] });
    await rig.send(3);
    await rig.settled(3);
    await rig.calm();
    rig.clock.jump(ms);
    receiver.answer = status(200);
    await rig.passQuickly(115_000);
    t.equal(receiver.requests.length, 3, 'not before');
    await rig.pass(7_000);
    await rig.settled(6);
    t.equal(receiver.requests.length, 6);
  });

  t.test(`probes a dead endpoint as often as before when the clock is set by ${name}`, async (t) => {
    const { receiver, rig } = await backlog(t);
    const before = receiver.requests.length;
    rig.clock.jump(ms);
    await rig.passQuickly(120_000);
    const probes = receiver.requests.length - before;
    t.ok(probes >= 3 && probes <= 12, `${probes} probes in two minutes`);
  });

  t.test(`shows attempts and letters in the new time when the clock is set by ${name}`, async (t) => {
    const receiver = await Receiver.start(t, status(400));
    const rig = await Rig.start(t, { destinations: [destination(receiver.url)] });
    const begun = rig.clock.monotonic();
    rig.clock.jump(ms);
    await rig.send(1);
    await rig.settled(1);
    await rig.calm();
    // A little time passes where the database is looked at.
    const now = rig.clock.now();
    const isNow = (at: number | null | undefined) => at !== null && Math.abs((at ?? 0) - now) <= 1_000;
    const [attempt] = await rig.store.attempts({ limit: 1, since: now - 2_000 });
    const [letter] = await rig.deadLetters();
    t.ok(rig.clock.monotonic() - begun <= 1_000);
    t.ok(isNow(attempt?.at), 'the attempt');
    t.ok(isNow(letter?.firstAt) && isNow(letter?.lastAt), 'the letter');
    t.equal((await rig.store.deadLetters({ since: now - 2_000, until: now + 2_000, limit: 10 })).length, 1);
  });
}

t.test('changes nothing when a clock is off by a second in every minute', async (t) => {
  const { receiver, rig } = await backlog(t);
  for (let minute = 0; minute < 10; minute += 1) {
    for (let second = 0; second < 60; second += 3) {
      rig.clock.jump(50);
      await rig.pass(3_000, 3_000);
    }
  }
  t.same(await reasons(rig), []);
  receiver.answer = status(200);
  await rig.passUntil(() => rig.delivered() === 100);
  t.equal(rig.verdicts.filter((kind) => kind === 'delivered').length, 100, 'each once');
  t.same(await reasons(rig), []);
});

t.test('posts none of the deliveries that others took after a suspension', async (t) => {
  const clock = new ManualClock();
  const database = await testDatabase(t, clock);
  const store = await database.open();
  const slow: ServerResponse[] = [];
  const quick = await Receiver.start(t);
  const busy = await Receiver.start(t, (response) => void slow.push(response));
  const rig = await Rig.start(t, { destinations: [destination([quick.url, busy.url])], database });
  await rig.send(40);
  await Promise.all([quick.received(40), busy.received(16)]);
  await rig.calm();
  // 24 first attempts wait for the busy endpoint.
  clock.suspend(60_000);
  t.equal(await store.rescue(), 40);
  const owner = await store.join(60_000);
  const { claims } = await store.claim(owner, [{ destination: 'crm', limit: 100, order: 'usual' }]);
  t.equal(claims[0]?.length, 40);
  busy.answer = status(200);
  for (const response of slow) response.end();
  await rig.pass(30_000);
  t.equal(busy.requests.length, 16, 'those that waited are not posted');
  t.match(await store.backlog(), [{ destination: 'crm', pending: 40, dead: 0 }], 'and nothing is settled');
  await store.leave(owner);
  await rig.passUntil(() => rig.delivered() >= 40);
  await rig.stopInTime();
});
