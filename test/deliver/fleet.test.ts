import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { Logger } from '../../src/kernel/log.ts';
import { silentLogger } from '../../src/kernel/log.ts';
import { ManualClock } from '../helpers/clock.ts';
import { type TestDatabase, testDatabase } from '../helpers/database.ts';
import { Receiver, status } from './helpers/receiver.ts';
import { destination, message, Rig } from './helpers/rig.ts';

// Hours pass, second by second.
t.setTimeout(590_000);

const GRACE = 1_800_000;
const PART = GRACE / 60;

/** A database for processes of different configurations. */
const shared = (t: Test): Promise<TestDatabase> =>
  testDatabase(t, new ManualClock(), { path: join(t.testdir(), 'rollcall.db') });

const pendingOf = async ({ store }: Rig, name: string) => {
  const row = (await store.backlog()).find(({ destination }) => destination === name);
  return { destination: name, pending: row?.pending ?? 0, dead: row?.dead ?? 0 };
};

t.test('leaves deliveries alone whose destination it does not know', async (t) => {
  const erp = await Receiver.start(t, status(503));
  const crm = await Receiver.start(t);
  const database = await shared(t);
  const both = [destination(crm.url), destination(erp.url, { name: 'erp' })];
  const knowing = await Rig.start(t, { destinations: both, database });
  await knowing.send(200);
  const other = await Rig.start(t, { destinations: [destination(crm.url)], database });
  await knowing.passQuickly(10 * PART);
  t.equal((await pendingOf(other, 'erp')).dead, 0);
  t.equal((await pendingOf(other, 'erp')).pending, 200);
  let taken = 0;
  erp.answer = (response, ...given) => {
    taken += 1;
    status(200)(response, ...given);
  };
  await knowing.passQuickly(10 * PART, () => taken === 200);
  t.equal(taken, 200);
  t.same(await other.deadLetters(), []);
});

t.test('shares a destination among the processes that serve it, with one leader', async (t) => {
  const database = await shared(t);
  const open: ServerResponse[] = [];
  const receiver = await Receiver.start(t, (response) => void open.push(response));
  const serving = destination(receiver.url);
  const others = [[], [{ ...serving, enabled: false }], [destination(receiver.url, { name: 'another' })]];
  const rigs: Rig[] = [];
  for (const destinations of others) rigs.push(await Rig.start(t, { destinations, database }));
  const rig = await Rig.start(t, { destinations: [serving], database });
  await rig.pass(6_000);
  await rig.send(100);
  await receiver.received(16);
  t.equal(rig.settlements.length, 0);
  // All of a dead endpoint's probes are this one's, too.
  receiver.answer = status(503);
  for (const response of open.splice(0)) response.writeHead(503).end();
  await rig.untilDead();
  const before = receiver.requests.length;
  await rig.passQuickly(5 * PART);
  t.ok(receiver.requests.length > before + 3, 'it is probed');
});

t.test('divides a destination again when a process starts or stops serving it', async (t) => {
  const database = await shared(t);
  const receiver = await Receiver.start(t);
  const limited = destination(receiver.url, { ratePerSecond: 20 });
  const one = await Rig.start(t, { destinations: [limited], database });
  const two = await Rig.start(t, { destinations: [], database });
  const rate = async () => {
    await one.pass(6_000);
    const before = receiver.requests.length;
    await one.pass(10_000, 100);
    return (receiver.requests.length - before) / 10;
  };
  await one.send(1_500);
  const alone = await rate();
  two.configure([limited]);
  const together = await rate();
  t.ok(two.settlements.length > 20, 'the other serves it once it knows it');
  two.configure([]);
  const left = two.settlements.length;
  const again = await rate();
  t.ok(two.settlements.length <= left + 20, 'and leaves it when it does not');
  for (const each of [alone, together, again]) t.ok(each > 12 && each <= 21, `${each} a second`);
});

t.test('makes dead letters of deliveries whose destination is unknown for removedAfter', async (t) => {
  const database = await shared(t);
  const receiver = await Receiver.start(t);
  const crm = destination(receiver.url);
  const gone = destination(receiver.url, { name: 'gone', enabled: false });
  const log = new Lines();
  const rig = await Rig.start(t, { destinations: [crm, gone], database, removedAfter: GRACE, log: log.logger });
  await rig.accept('shop', [message()]);
  await rig.store.accept({
    messages: [{ ...message(), source: 'shop', destinations: ['gone'], lane: 'live', conflict: null }],
    step: null,
  });
  await rig.passQuickly(2 * GRACE);
  t.equal((await pendingOf(rig, 'gone')).pending, 1, 'a disabled destination is known');
  rig.configure([crm]);
  await rig.passQuickly(GRACE - PART);
  t.equal((await pendingOf(rig, 'gone')).pending, 1);
  t.equal(log.count('No running process knows this destination'), 1, 'it is said once');
  await rig.passQuickly(5 * PART);
  t.match(await rig.deadLetters(), [{ destination: 'gone', reason: 'destination_removed' }]);
});

t.test('does not count time in which nothing ran, nor a step of the wall clock', async (t) => {
  const database = await shared(t);
  const receiver = await Receiver.start(t);
  const crm = destination(receiver.url);
  const start = () => Rig.start(t, { destinations: [crm], database, removedAfter: GRACE });
  const first = await start();
  await first.store.accept({
    messages: [{ ...message(), source: 'shop', destinations: ['gone'], lane: 'live', conflict: null }],
    step: null,
  });
  await first.passQuickly(GRACE / 2);
  await first.stopInTime();
  database.clock.advance(20 * GRACE);
  const second = await start();
  await second.passQuickly(GRACE / 3);
  database.clock.jump(10 * GRACE);
  await second.passQuickly(PART);
  t.same(await pendingOf(second, 'gone'), { destination: 'gone', pending: 1, dead: 0 });
  await second.passQuickly(GRACE / 3);
  t.same(await pendingOf(second, 'gone'), { destination: 'gone', pending: 0, dead: 1 });
});

t.test('counts the time once over several processes, and goes on when one ends', async (t) => {
  const database = await shared(t);
  const receiver = await Receiver.start(t);
  const start = () => Rig.start(t, { destinations: [destination(receiver.url)], database, removedAfter: GRACE });
  const [one, two, three] = [await start(), await start(), await start()];
  await one.store.accept({
    messages: [{ ...message(), source: 'shop', destinations: ['gone'], lane: 'live', conflict: null }],
    step: null,
  });
  await one.passQuickly(GRACE / 2);
  const counted = async () => (await three.store.orphans())[0]?.unknownFor ?? Number.NaN;
  const half = await counted();
  t.ok(half > GRACE / 2 - 4 * PART && half <= GRACE / 2, `${half} ms`);
  await one.stopInTime();
  await two.passQuickly(GRACE / 4);
  await two.stopInTime();
  await three.passQuickly(GRACE / 4 - 5 * PART);
  const most = await counted();
  t.ok(most > GRACE - 12 * PART && most < GRACE, `${most} ms`);
  await three.passQuickly(15 * PART);
  t.equal((await pendingOf(three, 'gone')).dead, 1);
});

t.test('buries nothing in a short-lived command, and ends the time of orphans it knows', async (t) => {
  const database = await shared(t);
  const receiver = await Receiver.start(t);
  const options = { destinations: [destination(receiver.url)], database, removedAfter: GRACE };
  const rig = await Rig.start(t, { ...options, isLasting: false });
  await rig.store.accept({
    messages: [{ ...message(), source: 'shop', destinations: ['gone'], lane: 'live', conflict: null }],
    step: null,
  });
  await rig.passQuickly(2 * GRACE);
  t.same(await pendingOf(rig, 'gone'), { destination: 'gone', pending: 1, dead: 0 });
  const lasting = await Rig.start(t, options);
  await lasting.passQuickly(GRACE - 10 * PART);
  const gone = destination(receiver.url, { name: 'gone', enabled: false });
  const knowing = await Rig.start(t, { ...options, destinations: [gone], isLasting: false });
  await knowing.stopInTime();
  await lasting.passQuickly(GRACE - 10 * PART);
  t.same(await pendingOf(rig, 'gone'), { destination: 'gone', pending: 1, dead: 0 });
  await lasting.passQuickly(20 * PART);
  t.same(await pendingOf(rig, 'gone'), { destination: 'gone', pending: 0, dead: 1 });
});

t.test('applies the longest removedAfter of the live processes', async (t) => {
  const database = await shared(t);
  const receiver = await Receiver.start(t);
  const options = { destinations: [destination(receiver.url)], database };
  const hasty = await Rig.start(t, { ...options, removedAfter: GRACE / 4 });
  const patient = await Rig.start(t, { ...options, removedAfter: GRACE });
  await hasty.store.accept({
    messages: [{ ...message(), source: 'shop', destinations: ['gone'], lane: 'live', conflict: null }],
    step: null,
  });
  await hasty.passQuickly(GRACE - 5 * PART);
  t.equal((await pendingOf(hasty, 'gone')).pending, 1);
  await patient.stopInTime();
  await hasty.passQuickly(3 * PART);
  t.equal((await pendingOf(hasty, 'gone')).dead, 1);
});

/** Lines of the log. */
class Lines {
  private readonly lines: string[] = [];
  readonly logger: Logger = { ...silentLogger, warn: (_fields: object, text: string) => void this.lines.push(text) };

  count(start: string): number {
    return this.lines.filter((line) => line.startsWith(start)).length;
  }
}
