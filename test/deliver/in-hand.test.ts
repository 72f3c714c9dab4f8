import t from 'tap';
import { DestinationQueue } from '../../src/deliver/destination-queue.ts';
import type { Exchange } from '../../src/deliver/exchange.ts';
import { Turns } from '../../src/deliver/turns.ts';
import type { Settlement } from '../../src/store/port.ts';
import { ManualClock } from '../helpers/clock.ts';
import { claims, queueHooks } from './helpers/queue.ts';
import { destination } from './helpers/rig.ts';

const LIMIT = 16_000_000;
const NOTHING = { size: 0, characters: 0 };

/** A destination that takes thousands at once, in batches, and answers when it is told to. */
function served(batch = { size: 500, wait: 50 }, batchMemory = { bytes: 0 }) {
  const clock = new ManualClock();
  const settled: Settlement[] = [];
  const waiting: ((exchange: Exchange) => void)[] = [];
  const plain = destination('http://127.0.0.1:9/');
  const crm = { ...plain, endpoints: plain.endpoints.map((endpoint) => ({ ...endpoint, batch })) };
  const queue = new DestinationQueue(crm, 'Rollcall', new Map(), {
    ...queueHooks(clock, (settlement) => void settled.push(settlement)),
    batchMemory,
    post: (_, done) => void waiting.push(done),
  });
  const turns = new Turns(clock, () => {});
  turns.add(queue);
  const claim = (unsettled = NOTHING) => {
    turns.wake([queue.name]);
    return turns.next(unsettled)[0]?.request.limit ?? 0;
  };
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  const answer = async () => {
    await turn();
    const exchange = { outcome: 'success', status: 200, error: null, response: null, retryAfter: null } as const;
    for (const resolve of waiting.splice(0)) resolve({ ...exchange, at: clock.now(), startedAt: 0, ms: 1 });
    await turn();
  };
  return { queue, turns, claim, turn, answer, settled };
}

t.test('bounds the body characters in hand, including deliveries not yet written', async (t) => {
  const { queue, claim, turn } = served();
  t.equal(claim(), Math.ceil(LIMIT / 8_192), 'until some are seen, bodies are taken to be long');
  queue.add(claims(1_000, 'small', { body: 'x'.repeat(400) }));
  await turn();
  t.equal(claim(), 4_096 - 1_000);
  t.equal(claim({ size: 1_000, characters: LIMIT - 400_000 - 400 }), 1);
  t.equal(claim({ size: 1_000, characters: LIMIT - 400_000 }), 0);

  const other = served();
  other.queue.add(claims(300, 'large', { body: 'x'.repeat(32_000) }));
  await turn();
  t.equal(other.claim(), (LIMIT - 300 * 32_000) / 32_000);
});

t.test('counts ended, released and given-up deliveries as no longer in hand', async (t) => {
  const { queue, claim, answer, settled } = served();
  const body = 'x'.repeat(1_000);
  queue.add(claims(1_200, 'first', { body }));
  t.equal(queue.heldCharacters, 1_200_000);
  await answer();
  t.equal(settled.length, 1_000, 'two whole batches');
  t.equal(queue.heldCharacters, 200_000);
  queue.retire();
  t.equal(queue.heldCharacters, 0, 'the others are given back');
  t.equal(settled.length, 1_200);

  const other = served({ size: 1, wait: 50 });
  other.queue.add(claims(40, 'lost', { body }));
  t.equal(other.queue.heldCharacters, 40_000);
  other.queue.abandon();
  await other.answer();
  t.equal(other.queue.heldCharacters, 0);
  t.ok(claim() === 0 && other.claim() > 0);
});

t.test('lets no message wait for others while the batch memory is full', async (t) => {
  const full = served({ size: 500, wait: 3_600_000 }, { bytes: 32 * 1024 * 1024 });
  full.queue.add(claims(1, 'only'));
  await full.answer();
  t.equal(full.settled.length, 1);
});

t.test('leaves room for other destinations when one fills the limit, up to a bound', async (t) => {
  const { queue, turns, claim } = served();
  queue.add(claims(4_096, 'many'));
  t.equal(claim(), 0);
  const wanted = (name: string, inHand = NOTHING) => {
    turns.wake([name]);
    return turns.next(inHand).find(({ request }) => request.destination === name)?.request.limit ?? 0;
  };
  const hooks = { ...queueHooks(new ManualClock(), () => {}), post: () => {} };
  turns.add(new DestinationQueue(destination('http://127.0.0.1:9/', { name: 'erp' }), 'Rollcall', new Map(), hooks));
  t.equal(wanted('erp'), 32, 'as many as its endpoint takes, and as many again');
  t.equal(wanted('erp', { size: 4_095, characters: 0 }), 1);
  t.equal(wanted('erp', { size: 4_096, characters: 0 }), 0);
  t.equal(wanted('erp', { size: 0, characters: 2 * LIMIT }), 0);
});

t.test('sends a batch larger than the limit in hand once that is reached', async (t) => {
  const { queue, claim, answer, settled } = served({ size: 5_000, wait: 3_600_000 });
  queue.add(claims(4_000, 'some'));
  t.ok(claim() > 0);
  await answer();
  t.equal(settled.length, 0, 'more may come');
  queue.add(claims(96, 'more'));
  t.equal(claim(), 0);
  await answer();
  t.equal(settled.length, 4_096);
});
