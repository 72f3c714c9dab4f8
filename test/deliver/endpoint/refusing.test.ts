import t from 'tap';
import { ManualClock } from '../../helpers/clock.ts';
import { testDatabase } from '../../helpers/database.ts';
import { Receiver, status } from '../helpers/receiver.ts';
import { destination, message, Rig } from '../helpers/rig.ts';

const keys = (receiver: Receiver, from = 0) =>
  receiver.requests.slice(from).map(({ headers }) => headers['idempotency-key']);
const values = (receiver: Receiver, from = 0) =>
  receiver.bodies.slice(from).map(({ properties }) => (properties as { value: unknown }).value);
const numbered = (from: number, count: number) =>
  Array.from({ length: count }, (_, index) => message({ value: from + index }));
const isRefusing = async (rig: Rig) =>
  (await rig.store.endpoints()).some(({ refusal }) => refusal && refusal.since !== null);

/** Sends one after the other, so that each is answered before the next. */
async function sendEach(rig: Rig, from: number, count: number): Promise<void> {
  for (const each of numbered(from, count)) {
    await rig.accept('shop', [each]);
    await rig.passQuickly(100);
  }
}

/** Lets time pass until so many dead letters are written, which a busy machine does after the answer. */
async function untilLetters(rig: Rig, count: number): Promise<void> {
  for (let tries = 0; tries < 100 && (await rig.deadLetters()).length !== count; tries += 1) {
    await rig.passQuickly(100);
  }
}

for (const code of [302, 401, 403, 404, 405, 407]) {
  t.test(
    `holds an endpoint that answers ${code} to everything, and resends all it refused after a success`,
    async (t) => {
      const receiver = await Receiver.start(t);
      const rig = await Rig.start(t, { destinations: [destination(receiver.url)] });
      await sendEach(rig, 1, 2);
      receiver.answer = status(400);
      await sendEach(rig, 3, 1);
      receiver.answer = status(200);
      await sendEach(rig, 4, 1);
      receiver.answer = status(code);
      await sendEach(rig, 5, 30);
      t.ok(await isRefusing(rig));
      t.ok(receiver.requests.length < 4 + 24, 'after twenty it gets probes only');
      const refused = [...keys(receiver, 4)];
      await rig.passQuickly(120_000);
      const probes = values(receiver, 4 + 20);
      t.ok(probes.length > 3 && probes.length < 20, `${probes.length} probes in two minutes`);
      t.equal(new Set(probes).size, Math.min(probes.length, 10), 'each with another message');
      const letters = await rig.deadLetters();
      t.same(
        letters.map(({ reason, status }) => [reason, status]),
        [['refused', 400], ...Array(19).fill(['refused', code])],
      );
      receiver.answer = status(200);
      const from = receiver.requests.length;
      await rig.passQuickly(60_000, () => rig.delivered() === 3 + 30);
      await rig.passQuickly(2_000);
      t.same(new Set(values(receiver, from)), new Set(Array.from({ length: 30 }, (_, index) => index + 5)));
      t.equal(values(receiver, from).length, 30, 'each once');
      t.ok(
        refused.slice(0, 20).every((key) => keys(receiver, from).includes(key)),
        'under their keys',
      );
      t.match(await rig.deadLetters(), [{ status: 400 }]);
      t.equal((await rig.deadLetters()).length, 1, 'a refusal of one message stays one');
      t.same(await rig.store.endpoints(), []);
    },
  );
}

for (const code of [400, 413, 415, 422]) {
  t.test(`treats ${code} as the fault of the message`, async (t) => {
    const receiver = await Receiver.start(t, status(code));
    const rig = await Rig.start(t, { destinations: [destination(receiver.url)] });
    await rig.send(40);
    await rig.settled(40);
    await rig.calm();
    t.same(await rig.store.endpoints(), []);
    t.equal((await rig.deadLetters()).length, 40);
  });
}

t.test('does not take refusals among successes, or of one message, for refusing everything', async (t) => {
  const receiver = await Receiver.start(
    t,
    (response, _, index) => void response.writeHead(index % 15 === 14 ? 200 : 404).end(),
  );
  const rig = await Rig.start(t, { destinations: [destination(receiver.url)] });
  await sendEach(rig, 1, 60);
  t.same(await rig.store.endpoints(), []);
  receiver.answer = status(200);
  await sendEach(rig, 61, 3);
  await untilLetters(rig, 56);
  const before = new Set((await rig.deadLetters()).map(({ id }) => id));
  t.equal(before.size, 56);
  receiver.answer = status(404);
  await sendEach(rig, 70, 1);
  await untilLetters(rig, 57);
  const id = (await rig.deadLetters()).find((letter) => !before.has(letter.id))?.id ?? '';
  for (let replay = 0; replay < 30; replay += 1) {
    await rig.store.replay([{ id, body: null }]);
    rig.worker.wake(['crm']);
    await untilLetters(rig, 57);
  }
  t.ok(receiver.requests.length >= 94);
  t.same(await rig.store.endpoints(), []);
});

t.test('loses and doubles nothing over a restart, even while resending', async (t) => {
  const clock = new ManualClock();
  const database = await testDatabase(t, clock);
  const receiver = await Receiver.start(t, status(401));
  const destinations = [destination(receiver.url)];
  const first = await Rig.start(t, { destinations, database });
  await sendEach(first, 1, 40);
  t.ok(await isRefusing(first));
  await first.stopInTime();
  const second = await Rig.start(t, { destinations, database });
  const before = receiver.requests.length;
  await second.passQuickly(10_000);
  t.ok(receiver.requests.length - before <= 4, 'it is still held');
  receiver.answer = status(200);
  const from = receiver.requests.length;
  await second.passUntil(() => receiver.requests.length > from);
  await second.passQuickly(1);
  await second.stopInTime();
  const third = await Rig.start(t, { destinations, database });
  await third.passQuickly(120_000, () => receiver.requests.length - from >= 40);
  await third.passQuickly(2_000);
  t.same(
    values(receiver, from).toSorted((a, b) => (a as number) - (b as number)),
    Array.from({ length: 40 }, (_, i) => i + 1),
  );
  t.same(await third.store.endpoints(), []);
  t.same(await third.deadLetters(), []);
});

for (const [what, mend] of [
  ['secret', (url: string) => destination(url, { secrets: ['the new one'] })],
  ['URL', (url: string) => destination(`${url}/new`)],
] as const) {
  t.test(`probes at once after a reload that fixes the ${what}`, async (t) => {
    const receiver = await Receiver.start(t, (response, { path, headers }) => {
      const isRight = what === 'URL' ? path.endsWith('/new') : headers['x-signature'] !== undefined;
      response.writeHead(isRight ? 200 : 404).end();
    });
    const rig = await Rig.start(t, { destinations: [destination(receiver.url)] });
    await sendEach(rig, 1, 30);
    await rig.passQuickly(200_000);
    const from = receiver.requests.length;
    rig.configure([mend(receiver.url)]);
    await rig.passQuickly(3_000, () => rig.delivered() === 30);
    await rig.passQuickly(1_000);
    t.equal(new Set(values(receiver, from)).size, 30, 'all are sent within seconds');
    t.same(await rig.store.endpoints(), []);
    t.same(await rig.deadLetters(), []);
  });
}

t.test('retries after a person resumes it, and resends what it refused after a success', async (t) => {
  const receiver = await Receiver.start(t, status(401));
  const rig = await Rig.start(t, { destinations: [destination(receiver.url)] });
  await sendEach(rig, 1, 30);
  const [state] = await rig.store.endpoints();
  receiver.answer = status(200);
  await rig.store.markEndpoint({ ...state!, refusal: { ...state!.refusal!, since: null } });
  await rig.passQuickly(5_000, () => rig.delivered() === 30);
  await rig.passQuickly(2_000);
  t.same(await rig.deadLetters(), []);
  t.same(await rig.store.endpoints(), []);
});

t.test('resends only messages that no endpoint took with any, and to missing endpoints with all', async (t) => {
  for (const require of ['any', 'all'] as const) {
    const good = await Receiver.start(t);
    const bad = await Receiver.start(t, status(403));
    const rig = await Rig.start(t, { destinations: [destination([good.url, bad.url], { require })] });
    await sendEach(rig, 1, 30);
    t.ok(await isRefusing(rig));
    t.equal(good.requests.length, 30, 'the other goes on');
    bad.answer = status(200);
    const from = bad.requests.length;
    await rig.passQuickly(120_000);
    if (require === 'any') await sendEach(rig, 31, 1);
    await rig.passQuickly(60_000);
    t.equal(good.requests.length, require === 'any' ? 31 : 30, 'none is sent there twice');
    if (require === 'all') t.equal(new Set(values(bad, from)).size, 30);
    t.same(await rig.deadLetters(), []);
  }
});

t.test('prefers a newer change of the same key', async (t) => {
  const receiver = await Receiver.start(t, status(401));
  const rig = await Rig.start(t, { destinations: [destination(receiver.url)] });
  for (const [index, each] of numbered(1, 22).entries()) {
    await rig.accept('shop', [{ ...each, conflict: `a|${index}` }]);
    await rig.passQuickly(100);
  }
  await rig.accept('shop', [message({ value: 'newer', conflict: 'a|3' })]);
  receiver.answer = status(200);
  const from = receiver.requests.length;
  await rig.passQuickly(60_000);
  const sent = values(receiver, from);
  t.ok(sent.includes('newer'));
  t.notOk(sent.includes(4), 'the older one is not sent');
  t.equal(sent.length, 22);
});

t.test('notifies both of two processes, and resends refused messages once', async (t) => {
  const clock = new ManualClock();
  const database = await testDatabase(t, clock);
  const receiver = await Receiver.start(t, status(401));
  const options = { destinations: [destination(receiver.url)], database };
  const first = await Rig.start(t, options);
  const second = await Rig.start(t, options);
  await first.pass(6_000);
  for (let round = 0; round < 30; round += 1) {
    await first.accept('shop', numbered(round * 2, 2));
    second.worker.wake(['crm']);
    await first.passQuickly(500);
  }
  await first.passQuickly(3_000);
  const held = receiver.requests.length;
  t.ok(held < 60);
  receiver.answer = status(200);
  await first.passQuickly(120_000);
  t.equal(new Set(values(receiver, held)).size, 60);
  t.equal(values(receiver, held).length, 60, 'each once');
  t.same(await first.deadLetters(), []);
  t.same(await first.store.endpoints(), []);
  await Promise.all([first.stopInTime(), second.stopInTime()]);
});
