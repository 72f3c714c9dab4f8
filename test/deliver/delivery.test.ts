import type { ServerResponse } from 'node:http';
import t from 'tap';
import { RETRY_WINDOW } from '../../src/kernel/retry.ts';
import { isOnPostgres } from '../helpers/store.ts';
import { Receiver, status } from './helpers/receiver.ts';
import { destination, message, Rig } from './helpers/rig.ts';

const counts = (receivers: readonly Receiver[]) => receivers.map(({ requests }) => requests.length);

t.test('posts to every endpoint once and retries none after one success', async (t) => {
  const receivers = await Promise.all([status(503), status(200), status(400)].map((each) => Receiver.start(t, each)));
  const { endpoints } = destination(receivers.map(({ url }) => url));
  const rig = await Rig.start(t, { destinations: [destination(receivers.map(({ url }) => url))] });
  await rig.send(1);
  await rig.settled(1);
  await rig.passQuickly(600_000);
  t.same(rig.verdicts, ['delivered']);
  t.same(counts(receivers), [1, 1, 1]);
  const log = await rig.store.attempts({ limit: 10 });
  t.same(
    log.map(({ endpoint, outcome, status }) => [endpoint, outcome, status]).reverse(),
    [
      [endpoints[0]?.id, 'retry', 503],
      [endpoints[1]?.id, 'success', 200],
      [endpoints[2]?.id, 'refused', 400],
    ],
    'each attempt is logged with its endpoint',
  );
});

t.test('retries only retryable endpoints if none succeeded', async (t) => {
  const flaky = await Receiver.start(t, (response, _, index) => void response.writeHead(index < 3 ? 500 : 200).end());
  const refusing = await Receiver.start(t, status(404));
  const rig = await Rig.start(t, { destinations: [destination([flaky.url, refusing.url])] });
  await rig.send(1);
  await rig.passQuickly(600_000, () => rig.verdicts.includes('delivered'));
  t.same(rig.verdicts, ['retry', 'retry', 'retry', 'delivered']);
  t.same(counts([flaky, refusing]), [4, 1]);
});

t.test('makes a dead letter with the last status and no more tries when all have refused', async (t) => {
  const receivers = await Promise.all([status(400), status(422)].map((each) => Receiver.start(t, each)));
  const rig = await Rig.start(t, { destinations: [destination(receivers.map(({ url }) => url))] });
  await rig.accept('shop', [message({ messageId: 'lost' })]);
  await rig.settled(1);
  await rig.passQuickly(600_000);
  t.same(counts(receivers), [1, 1]);
  const [letter] = await rig.deadLetters();
  t.match(letter, { messageId: 'lost', reason: 'refused', status: 422, attempts: 1 });
});

t.test('require all: resends only to endpoints that have not succeeded, until they do', async (t) => {
  const good = await Receiver.start(t);
  const flaky = await Receiver.start(t, (response, _, index) => void response.writeHead(index < 2 ? 503 : 200).end());
  const rig = await Rig.start(t, { destinations: [destination([good.url, flaky.url], { require: 'all' })] });
  await rig.send(1);
  await rig.passQuickly(600_000, () => rig.verdicts.includes('delivered'));
  t.same(counts([good, flaky]), [1, 3]);
  t.same(rig.verdicts, ['retry', 'retry', 'delivered']);
});

t.test('require all: delivers to a dead endpoint once it is back', async (t) => {
  const good = await Receiver.start(t);
  const dying = await Receiver.start(t, (response) => void response.destroy());
  const rig = await Rig.start(t, { destinations: [destination([good.url, dying.url], { require: 'all' })] });
  // Real steady clocks have fractions of a millisecond, which no due time has.
  const steady = rig.clock.monotonic.bind(rig.clock);
  rig.clock.monotonic = () => steady() + 0.25;
  await rig.send(10);
  await rig.settled(10);
  for (let step = 0; step < 60; step += 1) {
    rig.clock.advance(250);
    await rig.calm();
  }
  t.ok(rig.verdicts.includes('release'), 'none is charged a try while it is dead');
  dying.answer = status(200);
  await rig.passQuickly(600_000, () => rig.delivered() === 10);
  t.equal(rig.verdicts.filter((kind) => kind === 'delivered').length, 10);
  t.equal(good.requests.length, 10, 'what took it does not get it again');
});

t.test('require all: makes a dead letter with the refusal after one refusal', async (t) => {
  const refusing = await Receiver.start(t, status(400));
  const good = await Receiver.start(t, status(201));
  const rig = await Rig.start(t, { destinations: [destination([refusing.url, good.url], { require: 'all' })] });
  await rig.send(1);
  await rig.settled(1);
  await rig.calm();
  t.match(await rig.deadLetters(), [{ reason: 'refused', status: 400 }]);
});

t.test('require all: replays a letter only to endpoints that had not taken it', async (t) => {
  const refusing = await Receiver.start(t, status(400));
  const good = await Receiver.start(t);
  const rig = await Rig.start(t, { destinations: [destination([refusing.url, good.url], { require: 'all' })] });
  await rig.send(1);
  await rig.settled(1);
  await rig.calm();
  const [letter] = await rig.deadLetters();
  refusing.answer = status(200);
  t.equal(await rig.store.replay([{ id: letter?.id ?? '', body: null }]), 1);
  await rig.passQuickly(60_000, () => rig.verdicts.includes('delivered'));
  t.same(counts([refusing, good]), [2, 1]);
});

t.test('holds a first attempt while its endpoint is busy, even if another has succeeded', async (t) => {
  const open: ServerResponse[] = [];
  const quick = await Receiver.start(t);
  const slow = await Receiver.start(t, (response) => void open.push(response));
  const rig = await Rig.start(t, { destinations: [destination([quick.url, slow.url])] });
  await rig.send(20);
  await Promise.all([quick.received(20), slow.received(16)]);
  t.same(counts([quick, slow]), [20, 16], 'a new endpoint gets 16 at a time');
  t.same(rig.verdicts, []);
  for (const response of open.splice(0)) response.end();
  await slow.received(20);
  for (const response of open.splice(0)) response.end();
  await rig.settled(20);
  t.same(counts([quick, slow]), [20, 20]);
});

t.test('skips and logs a dead endpoint, and goes on with the others', async (t) => {
  const good = await Receiver.start(t);
  const failing = await Receiver.start(t, status(500));
  const two = destination([good.url, failing.url]);
  const rig = await Rig.start(t, { destinations: [two] });
  for (let round = 1; (await rig.store.endpoints()).length === 0; round += 1) {
    await rig.send(1);
    await rig.settled(round);
    await rig.pass(1);
  }
  const before = failing.requests.length;
  await rig.send(5);
  await rig.settled(before + 5);
  await rig.calm();
  t.equal(failing.requests.length, before, 'nothing is sent to it');
  const skipped = await rig.store.attempts({ outcome: 'skipped', limit: 10 });
  t.same(
    skipped.map(({ endpoint, error }) => [endpoint, error]),
    Array(5).fill([two.endpoints[1]?.id, 'endpoint_dead']),
  );
  t.equal(
    rig.verdicts.every((kind) => kind === 'delivered'),
    true,
  );
});

t.test('pauses an endpoint after a 410 until a person resumes it, over restarts', async (t) => {
  const good = await Receiver.start(t);
  const gone = await Receiver.start(t, status(410));
  const two = destination([good.url, gone.url]);
  const rig = await Rig.start(t, { destinations: [two] });
  await rig.send(1);
  await rig.settled(1);
  await rig.calm();
  const [state] = await rig.store.endpoints();
  t.match(state, { endpoint: two.endpoints[1]?.id, destination: 'crm', deadSince: null });
  t.type(state?.pausedAt, 'number');
  await rig.send(3);
  await rig.settled(4);
  await rig.passQuickly(60_000);
  t.equal(gone.requests.length, 1, 'no probe goes to it');
  t.same((await rig.store.attempts({ outcome: 'skipped', limit: 1 }))[0]?.error, 'endpoint_paused');

  const restarted = await Rig.start(t, { destinations: [two], database: rig.database });
  await restarted.send(1);
  await restarted.settled(1);
  t.equal(gone.requests.length, 1, 'a restart does not resume it');

  gone.answer = status(200);
  await rig.store.markEndpoint({ endpoint: two.endpoints[1]!.id, destination: 'crm', pausedAt: null, deadSince: null });
  await restarted.pass(1_000);
  await restarted.send(1);
  await restarted.settled(2);
  t.equal(gone.requests.length, 2, 'resumed');
  await restarted.stopInTime();
});

t.test('keeps deliveries uncharged while the only endpoint is paused, and sends them when it is resumed', async (t) => {
  const gone = await Receiver.start(t, status(410));
  const one = destination(gone.url);
  const rig = await Rig.start(t, { destinations: [one] });
  await rig.send(1);
  await rig.settled(1);
  t.same(rig.verdicts, ['dead'], 'what was answered with 410 is refused');
  await rig.send(5);
  await rig.passQuickly(120_000);
  t.equal(gone.requests.length, 1);
  gone.answer = status(200);
  await rig.store.markEndpoint({ endpoint: one.endpoints[0]!.id, destination: 'crm', pausedAt: null, deadSince: null });
  await rig.pass(2_000);
  await rig.settled(6);
  const delivered = rig.settlements.filter(({ verdict }) => verdict.kind === 'delivered');
  t.same(
    delivered.map(({ claim }) => claim.tries),
    [0, 0, 0, 0, 0],
  );
});

t.test('pauses an endpoint whose probe is answered with 410, and lets a person resume it', async (t) => {
  const receiver = await Receiver.start(t, status(500));
  const one = destination(receiver.url);
  const rig = await Rig.start(t, { destinations: [one] });
  await rig.send(40);
  await rig.untilDead();
  t.match(await rig.store.endpoints(), [{ pausedAt: null, deadSince: Number, deadCause: 'status_500' }]);
  receiver.answer = status(410);
  await rig.passQuickly(600_000, () => rig.outcomes.some(([, error]) => error === 'status_410'));
  await rig.calm();
  t.match(await rig.store.endpoints(), [{ pausedAt: Number }]);
  receiver.answer = status(200);
  await rig.store.markEndpoint({ endpoint: one.endpoints[0]!.id, destination: 'crm', pausedAt: null, deadSince: null });
  await rig.passQuickly(600_000, () => rig.delivered() === 39);
  t.same(await rig.backlogOf(0), [{ destination: 'crm', pending: 0, dead: 1, queued: 0, heldOut: 0 }]);
});

t.test('retries a delivery for four hours, then makes it a dead letter', async (t) => {
  const receiver = await Receiver.start(t, status(503));
  const rig = await Rig.start(t, { destinations: [destination(receiver.url)] });
  await rig.send(1);
  await rig.settled(1);
  const firstAt = rig.settlements[0]?.attempts[0]?.at ?? 0;
  await rig.passQuickly(RETRY_WINDOW - 60_000);
  t.notOk(rig.verdicts.includes('dead'), 'a minute before the end it still is tried');
  await rig.passQuickly(60_000 + 30_000, () => rig.verdicts.includes('dead'));
  await rig.calm();
  const at = rig.settlements.flatMap(({ attempts }) => attempts.map((attempt) => attempt.at - firstAt));
  t.ok(at.length > 40, `it was tried often (${at.length})`);
  t.ok(Math.max(...at) <= RETRY_WINDOW, `never after four hours (${Math.max(...at)})`);
  t.ok(Math.max(...at) >= RETRY_WINDOW - 310_000, 'but nearly so long');
  t.match(await rig.deadLetters(), [{ reason: 'expired', firstAt, attempts: at.length }]);
  t.equal(receiver.requests.length, at.length);
});

// Four hours of probes are 25 s of Postgres. What ends there by time, the contract of the stores says.
const skip = isOnPostgres && 'on SQLite only';
t.test(
  'never charges deliveries held back by a dead endpoint, and expires them after four hours',
  { skip },
  async (t) => {
    const receiver = await Receiver.start(t, (response) => void response.destroy());
    const rig = await Rig.start(t, { destinations: [destination(receiver.url)] });
    await rig.send(40);
    await rig.passQuickly(60_000, () => rig.verdicts.includes('retry'));
    await rig.calm();
    t.match(await rig.store.endpoints(), [{ deadSince: Number }]);
    await rig.send(1_000);
    await rig.passQuickly(RETRY_WINDOW - 120_000);
    t.same(await rig.deadLetters(), []);
    await rig.passQuickly(300_000);
    const letters = await rig.deadLetters();
    t.equal(letters.length, 1_040);
    t.same(new Set(letters.map(({ reason }) => reason)), new Set(['expired']));
    const untried = letters.filter(({ attempts }) => attempts === 0);
    t.ok(untried.length >= 1_000 - 500, `most were never sent (${untried.length})`);
    t.same(await rig.store.backlog(), [{ destination: 'crm', pending: 0, dead: 1_040, queued: 0, heldOut: 0 }]);
    t.ok(receiver.requests.length < 600, `a dead endpoint gets probes only (${receiver.requests.length})`);
  },
);

for (const [form, header] of [
  ['seconds', () => '90'],
  ['a date', (now: number) => new Date(now + 90_000).toUTCString()],
] as const) {
  t.test(`delays the next try after a Retry-After in ${form}`, async (t) => {
    const receiver = await Receiver.start(t);
    const rig = await Rig.start(t, { destinations: [destination(receiver.url)] });
    receiver.answer = (response, _, index) =>
      void response
        .writeHead(index === 0 ? 429 : 200, {
          date: new Date(rig.clock.now()).toUTCString(),
          'retry-after': header(rig.clock.now()),
        })
        .end();
    await rig.send(1);
    await rig.settled(1);
    await rig.passQuickly(89_000);
    t.equal(receiver.requests.length, 1);
    await rig.pass(2_000);
    await rig.settled(2);
    t.same(rig.verdicts, ['retry', 'delivered']);
  });
}

t.test('retries an endpoint that is slower than the poll for other processes', async (t) => {
  const open: ServerResponse[] = [];
  const receiver = await Receiver.start(t, (response) => void open.push(response));
  const rig = await Rig.start(t, { destinations: [destination(receiver.url)] });
  await rig.send(1);
  await receiver.received(1);
  await rig.pass(3_000);
  open[0]?.writeHead(503).end();
  await rig.settled(1);
  await rig.pass(2_000);
  await receiver.received(2);
  t.equal(receiver.requests.length, 2);
  open[1]?.end();
  await rig.settled(2);
});
