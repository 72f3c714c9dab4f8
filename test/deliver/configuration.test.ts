import type { ServerResponse } from 'node:http';
import t, { type Test } from 'tap';
import { deletionNotice } from '../../src/message.ts';
import { FOUR_HOURS } from './helpers/four-hours.ts';
import { Receiver, status } from './helpers/receiver.ts';
import { destination, message, Rig } from './helpers/rig.ts';

t.test('uses a changed URL and secret from the next attempt on', async (t) => {
  const old = await Receiver.start(t, status(503));
  const next = await Receiver.start(t);
  const rig = await Rig.start(t, { destinations: [destination(old.url, { secrets: ['one'] })] });
  await rig.send(3);
  await rig.settled(3);
  rig.configure([destination(next.url, { secrets: ['two'] })]);
  await rig.passQuickly(60_000, () => next.requests.length === 3);
  t.equal(old.requests.length, 3);
  t.equal(next.requests.length, 3);
  const signatures = [...old.requests, ...next.requests].map(({ headers }) => headers['x-signature']);
  t.equal(new Set(signatures).size, 6, 'signed with the other secret');
  await rig.passQuickly(10_000);
  t.same(await rig.backlogOf(0), [{ destination: 'crm', pending: 0, dead: 0, queued: 0, heldOut: 0 }]);
});

t.test('keeps deliveries of a disabled destination, and sends them when it is enabled again', async (t) => {
  const open: ServerResponse[] = [];
  const receiver = await Receiver.start(t, (response) => void open.push(response));
  const enabled = destination(receiver.url);
  const rig = await Rig.start(t, { destinations: [enabled] });
  await rig.send(100);
  await receiver.received(16);
  rig.configure([{ ...enabled, enabled: false }]);
  for (const response of open.splice(0)) response.end();
  await rig.settled(16);
  await rig.passQuickly(60_000);
  t.equal(receiver.requests.length, 16, 'what was claimed and not begun is not sent either');
  t.same(await rig.store.backlog(), [{ destination: 'crm', pending: 84, dead: 0, queued: 84, heldOut: 0 }]);
  receiver.answer = status(200);
  rig.configure([enabled]);
  await rig.settled(100);
  t.equal(receiver.requests.length, 100, 'and nothing twice');
});

t.test('counts the four hours while a destination is disabled', FOUR_HOURS, async (t) => {
  const receiver = await Receiver.start(t, status(503));
  const enabled = destination(receiver.url);
  const rig = await Rig.start(t, { destinations: [enabled] });
  await rig.send(1);
  await rig.settled(1);
  rig.configure([{ ...enabled, enabled: false }]);
  await rig.accept('shop', []);
  await rig.passQuickly(4 * 3_600_000 + 60_000);
  t.match(await rig.deadLetters(), [{ reason: 'expired', attempts: 1 }]);
  t.equal(receiver.requests.length, 1);
});

t.test('makes dead letters of a removed destination after removedAfter, and lets attempts in flight end', async (t) => {
  const open: ServerResponse[] = [];
  const receiver = await Receiver.start(t, (response) => void open.push(response));
  const other = await Receiver.start(t);
  const kept = destination(other.url, { name: 'kept' });
  const rig = await Rig.start(t, { destinations: [destination(receiver.url), kept], removedAfter: 3_600_000 });
  await rig.send(50);
  await receiver.received(16);
  rig.configure([kept]);
  for (const response of open.splice(0)) response.end();
  await rig.settled(50 + 16);
  await rig.passQuickly(3_500_000);
  t.same(await rig.deadLetters(), []);
  await rig.passQuickly(200_000);
  t.equal(receiver.requests.length, 16);
  const letters = await rig.deadLetters();
  t.equal(letters.length, 34);
  t.same(new Set(letters.map(({ reason, attempts }) => `${reason} ${attempts}`)), new Set(['destination_removed 0']));
  t.equal(other.requests.length, 50);
});

/** Has a notice tried once, which fails, and another accepted while the destination is disabled, for longer than four hours. */
async function disabledWithNotices(t: Test, receiver: Receiver): Promise<{ rig: Rig; enable: () => void }> {
  const enabled = destination(receiver.url);
  const rig = await Rig.start(t, { destinations: [enabled] });
  const notices = { lane: 'deletion', to: ['crm'] } as const;
  await rig.accept('shop', [deletionNotice('tried', 'n1', rig.clock.now())], notices);
  await rig.settled(1);
  rig.configure([{ ...enabled, enabled: false }]);
  await rig.accept('shop', [deletionNotice('untried', 'n2', rig.clock.now())], notices);
  await rig.passQuickly(5 * 3_600_000);
  t.same(await rig.store.backlog(), [{ destination: 'crm', pending: 2, dead: 0, queued: 0, heldOut: 0 }]);
  t.equal(receiver.requests.length, 1);
  return { rig, enable: () => rig.configure([enabled]) };
}

t.test('keeps deletion notices of a disabled destination beyond the four hours', FOUR_HOURS, async (t) => {
  const receiver = await Receiver.start(t, status(503));
  const { rig, enable } = await disabledWithNotices(t, receiver);
  receiver.answer = status(200);
  enable();
  await rig.passQuickly(600_000, () => rig.delivered() === 2);
  t.same(await rig.backlogOf(0), [{ destination: 'crm', pending: 0, dead: 0, queued: 0, heldOut: 0 }]);
});

t.test('starts the four hours of notices when the destination is enabled again', FOUR_HOURS, async (t) => {
  const receiver = await Receiver.start(t, status(503));
  const { rig, enable } = await disabledWithNotices(t, receiver);
  enable();
  await rig.passQuickly(3 * 3_600_000);
  t.same(await rig.deadLetters(), []);
  await rig.passQuickly(2 * 3_600_000, () => rig.verdicts.filter((kind) => kind === 'dead').length === 2);
  t.same(new Set((await rig.deadLetters()).map(({ reason }) => reason)), new Set(['expired']));
});

t.test('drops deletion notices of a removed destination after removedAfter', FOUR_HOURS, async (t) => {
  const receiver = await Receiver.start(t, status(503));
  const kept = destination(receiver.url, { name: 'kept', sources: [] });
  const removedAfter = 6 * 3_600_000;
  const rig = await Rig.start(t, { destinations: [destination(receiver.url), kept], removedAfter });
  await rig.accept('shop', [deletionNotice('u1', 'n1', rig.clock.now())], { lane: 'deletion', to: ['crm'] });
  await rig.settled(1);
  rig.configure([kept]);
  await rig.passQuickly(removedAfter - 600_000);
  t.match(await rig.store.backlog(), [{ destination: 'crm', pending: 1, dead: 0 }]);
  await rig.passQuickly(1_200_000);
  t.same(await rig.store.backlog(), [{ destination: 'crm', pending: 0, dead: 0, queued: 0, heldOut: 0 }]);
  t.same(await rig.deadLetters(), []);
});

t.test('sends pending deliveries to a new endpoint, and none to a removed one', async (t) => {
  const failing = await Receiver.start(t, status(503));
  const rig = await Rig.start(t, { destinations: [destination(failing.url, { require: 'all' })] });
  await rig.send(2);
  await rig.settled(2);
  const [first, second] = [await Receiver.start(t), await Receiver.start(t)];
  rig.configure([destination([first.url, second.url], { require: 'all' })]);
  await rig.passQuickly(60_000, () => rig.delivered() === 2);
  t.same(
    [failing, first, second].map(({ requests }) => requests.length),
    [2, 2, 2],
  );
});

t.test('delivers a message that one endpoint took when require changes from all to any', async (t) => {
  const good = await Receiver.start(t);
  const failing = await Receiver.start(t, status(503));
  const urls = [good.url, failing.url];
  const rig = await Rig.start(t, { destinations: [destination(urls, { require: 'all' })] });
  await rig.send(1);
  await rig.settled(1);
  t.same(rig.verdicts, ['retry']);
  rig.configure([destination(urls, { require: 'any' })]);
  await rig.passQuickly(60_000, () => rig.verdicts.includes('delivered'));
  t.equal(good.requests.length, 1);
  t.equal(failing.requests.length, 2);
});

t.test('serves an added destination', async (t) => {
  const receiver = await Receiver.start(t);
  const rig = await Rig.start(t, { destinations: [] });
  rig.configure([destination(receiver.url)]);
  await rig.send(5);
  await rig.settled(5);
  t.equal(receiver.requests.length, 5);
});

for (const rate of [2, 50]) {
  t.test(`keeps to and reaches a rate limit of ${rate} a second, also with slow answers`, async (t) => {
    const open: ServerResponse[] = [];
    const receiver = await Receiver.start(t, (response) => void open.push(response));
    const rig = await Rig.start(t, { destinations: [destination(receiver.url, { ratePerSecond: rate })] });
    await rig.send(rate * 10);
    for (let second = 1; second <= 4; second += 1) {
      for (let tenth = 0; tenth < 50; tenth += 1) {
        await rig.pass(20, 20);
        // Every answer takes a second.
        if (tenth === 0) for (const response of open.splice(0)) response.end();
      }
      const begun = receiver.requests.length;
      t.ok(begun <= rate * second + Math.max(1, rate / 10), `no more than allowed after ${second} s (${begun})`);
      t.ok(begun >= Math.min(rate * second, 16 * second) * 0.6, `and not much less (${begun})`);
    }
    for (const response of open.splice(0)) response.end();
    receiver.answer = status(200);
    rig.configure([destination(receiver.url)]);
    await rig.settled(rate * 10);
    t.equal(receiver.requests.length, rate * 10);
  });
}

t.test('sends deletion notices before live messages before backfills, without starving these', async (t) => {
  const receiver = await Receiver.start(t);
  const enabled = destination(receiver.url);
  const rig = await Rig.start(t, { destinations: [{ ...enabled, enabled: false }] });
  const lanes = ['backfill', 'live', 'deletion'] as const;
  for (const lane of lanes) {
    const messages = Array.from({ length: 600 }, () => ({
      ...message({ value: lane }),
      source: 'shop',
      destinations: ['crm'],
      lane,
      conflict: null,
    }));
    await rig.store.accept({ messages, step: null });
  }
  rig.configure([enabled]);
  await rig.settled(1_800);
  const seen = receiver.bodies.map(({ properties }) => (properties as { value: string }).value);
  const mean = (lane: string) => seen.reduce((sum, value, place) => sum + (value === lane ? place : 0), 0) / 600;
  t.ok(mean('deletion') < mean('live'), `notices before live messages (${lanes.map(mean)})`);
  t.ok(mean('live') < mean('backfill'), 'live messages before backfills');
  t.ok(seen.indexOf('backfill') < 1_200, `a backfill goes on all the same (${seen.indexOf('backfill')})`);
});

t.test('sends first tries before retries, which get a share of a busy destination', async (t) => {
  const receiver = await Receiver.start(t);
  const enabled = destination(receiver.url);
  const rig = await Rig.start(t, { destinations: [{ ...enabled, enabled: false }] });
  const fill = (value: string, count: number) => {
    const messages = Array.from({ length: count }, () => ({
      ...message({ value }),
      source: 'shop',
      destinations: ['crm'],
      lane: 'live' as const,
      conflict: null,
    }));
    return rig.store.accept({ messages, step: null });
  };
  await fill('retry', 600);
  const owner = await rig.store.join(60_000);
  const { claims } = await rig.store.claim(owner, [{ destination: 'crm', limit: 600, order: 'usual' }]);
  const now = rig.clock.now();
  const verdict = { kind: 'retry', dueAt: now, firstAt: now, marks: {} } as const;
  await rig.store.settle(
    owner,
    claims[0]!.map((claim) => ({ claim, verdict, attempts: [] })),
  );
  await fill('first', 2_000);
  rig.configure([enabled]);
  await rig.settled(2_600);
  const seen = receiver.bodies.slice(0, 1_500).map(({ properties }) => (properties as { value: string }).value);
  const firsts = seen.filter((value) => value === 'first').length;
  t.ok(firsts > 900, `most are first tries while there are any (${firsts} of 1500)`);
  t.ok(firsts < 1_500, 'and some are retries');
});
