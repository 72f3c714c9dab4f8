import type { ServerResponse } from 'node:http';
import t from 'tap';
import { Receiver, status } from '../helpers/receiver.ts';
import { destination, message, Rig } from '../helpers/rig.ts';

/** An answer's status by its place and by what the message is. */
type Judge = (place: number, value: unknown) => number;

/** Rounds of 200 ms until so many other messages are delivered, and the most that were in flight. */
async function flow(t: Parameters<typeof Rig.start>[0], statusOf: Judge, failing: number) {
  const open: { readonly response: ServerResponse; readonly code: number }[] = [];
  const receiver = await Receiver.start(t, (response, { body }, place) => {
    open.push({ response, code: statusOf(place, JSON.parse(body.toString()).properties.value) });
  });
  const rig = await Rig.start(t, { destinations: [destination(receiver.url)] });
  const messages = Array.from({ length: 1_200 }, (_, index) =>
    message({ value: index % 100 < failing ? 'bad' : 'good' }),
  );
  await rig.accept('shop', messages);
  let peak = 0;
  let rounds = 0;
  // All that is in flight is here each time.
  await rig.pass(0);
  for (; rig.delivered() < 1_000; rounds += 1) {
    peak = Math.max(peak, open.length);
    rig.clock.advance(200);
    for (const { response, code } of open.splice(0)) response.writeHead(code).end();
    await rig.pass(0);
  }
  receiver.answer = status(200);
  for (const { response } of open.splice(0)) response.end();
  await rig.stopInTime();
  return { rounds, peak };
}

/** With nothing else beside them. */
let unharmed: ReturnType<typeof flow> | null = null;

for (const [what, statusOf, failing] of [
  ['5 of 100 messages are always answered 500', (_: number, value: unknown) => (value === 'bad' ? 500 : 200), 5],
  ['10 of 100 messages are always answered 500', (_: number, value: unknown) => (value === 'bad' ? 500 : 200), 10],
  ['every 20th answer is 503', (place: number) => (place % 20 === 7 ? 503 : 200), 0],
] as const) {
  t.test(`delivers the others as usual when ${what}`, async (t) => {
    unharmed ??= flow(t, () => 200, 0);
    const alone = await unharmed;
    const beside = await flow(t, statusOf, failing);
    t.equal(alone.peak, 256);
    t.ok(beside.peak >= 240, `${beside.peak} in flight`);
    t.ok(beside.rounds <= alone.rounds + 2, `${alone.rounds} rounds alone, ${beside.rounds} beside them`);
  });
}
