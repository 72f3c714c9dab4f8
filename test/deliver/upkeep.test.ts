import t from 'tap';
import { createAccept } from '../../src/accept.ts';
import type { WorkerStore } from '../../src/deliver/worker-options.ts';
import { RETRY_WINDOW } from '../../src/kernel/retry.ts';
import type { Claim, Store } from '../../src/store/port.ts';
import { FOUR_HOURS } from './helpers/four-hours.ts';
import { Receiver } from './helpers/receiver.ts';
import { destination, message, Rig } from './helpers/rig.ts';

const DAY = 86_400_000;

t.test('prunes old attempts, and no others, while the service runs', async (t) => {
  const receiver = await Receiver.start(t);
  const rig = await Rig.start(t, { destinations: [destination(receiver.url)] });
  await rig.send(2_500);
  await rig.settled(2_500);
  await rig.backlogOf(0);
  t.equal((await rig.store.attempts({ limit: 10_000 })).length, 2_500);
  rig.clock.stall(8 * DAY);
  await rig.send(1);
  await rig.passUntil(() => rig.settlements.length > 2_500);
  await rig.pass(60_000);
  t.equal((await rig.store.attempts({ limit: 10_000 })).length, 2_501, 'a clock that leaps is doubted for a day');
  rig.clock.stall(DAY);
  await rig.pass(60_000);
  const left = await rig.store.attempts({ limit: 10_000 });
  t.same(
    left.map(({ delivery }) => delivery),
    [rig.settlements.at(-1)?.claim.id],
  );
});

t.test('replaces bytes in the attempt log that no database accepts as text', async (t) => {
  const receiver = await Receiver.start(
    t,
    (response) => void response.writeHead(500).end(Buffer.from([0x61, 0x00, 0xff, 0xc3])),
  );
  const rig = await Rig.start(t, { destinations: [destination(receiver.url)] });
  await rig.send(1);
  await rig.settled(1);
  await rig.calm();
  t.equal((await rig.store.attempts({ limit: 1 }))[0]?.response, 'a\ufffd\ufffd\ufffd');
});

t.test('logs each try that cannot be sent, and ends with a dead letter', FOUR_HOURS, async (t) => {
  const one = destination('http://127.0.0.1:9/');
  const [endpoint] = one.endpoints;
  // The configuration would not let it pass.
  const broken = { ...one, endpoints: [{ ...endpoint!, headers: { 'x-broken': 'a\nb' } }] };
  const rig = await Rig.start(t, { destinations: [broken] });
  await rig.send(1);
  await rig.passQuickly(RETRY_WINDOW + 120_000, () => rig.verdicts.includes('dead'));
  await rig.calm();
  const [letter, ...others] = await rig.deadLetters();
  t.same(others, []);
  t.equal(letter?.reason, 'expired');
  const attempts = await rig.store.attempts({ limit: 1_000 });
  t.ok(attempts.length > 20);
  t.match(attempts.at(-1), { outcome: 'retry', status: null, error: 'UND_ERR_INVALID_ARG' });
  t.same(await rig.store.backlog(), [{ destination: 'crm', pending: 0, dead: 1, queued: 0, heldOut: 0 }]);
});

t.test('makes a dead letter of a delivery that fails by our fault, and stops nothing else', async (t) => {
  const receiver = await Receiver.start(t);
  const workerStore = (store: Store): WorkerStore => ({
    ...store,
    async claim(...given) {
      const result = await store.claim(...given);
      const broken = (claim: Claim) => (claim.messageId === 'broken' ? { ...claim, marks: null as never } : claim);
      return { ...result, claims: result.claims.map((claims) => claims.map(broken)) };
    },
  });
  const destinations = [destination(receiver.url)];
  const rig = await Rig.start(t, { destinations, workerStore });
  // As of another process: this one claims them from the store.
  const accept = createAccept(rig.store, () => destinations);
  await accept('shop', [message(), message({ messageId: 'broken' }), message()]);
  rig.worker.wake(['crm']);
  await rig.settled(3);
  await rig.backlogOf(0);
  t.match(await rig.deadLetters(), [{ messageId: 'broken', reason: 'undeliverable', attempts: 0 }]);
  t.equal(receiver.requests.length, 2);
});
