import t from 'tap';
import { DestinationQueue, type QueueHooks } from '../../../src/deliver/destination-queue.ts';
import type { Exchange } from '../../../src/deliver/exchange.ts';
import { ManualClock } from '../../helpers/clock.ts';
import { claims, queueHooks } from '../helpers/queue.ts';
import { destination } from '../helpers/rig.ts';

/** As many as a new endpoint's window holds. */
const sixteen = (name: string) => claims(16, name);

function hooks(clock: ManualClock, settled: string[]): Omit<QueueHooks, 'post'> {
  return queueHooks(clock, ({ verdict }) => settled.push(verdict.kind));
}

function taken(clock: ManualClock): Exchange {
  const exchange = { outcome: 'success', status: 200, error: null, response: null, retryAfter: null } as const;
  return { ...exchange, at: clock.now(), startedAt: clock.monotonic(), ms: 1 };
}

t.test('lets any number of deliveries end before their posts return', async (t) => {
  const clock = new ManualClock();
  const settled: string[] = [];
  const queue = new DestinationQueue(destination('http://127.0.0.1:9/'), 'Rollcall', new Map(), {
    ...hooks(clock, settled),
    post: (_, done) => done(taken(clock)),
  });
  queue.add(claims(5_000, 'many'));
  await queue.drained();
  t.equal(settled.length, 5_000);
  t.ok(queue.idle);
});

t.test('does not give up a delivery that fails by our fault once another process has its claim', async (t) => {
  const clock = new ManualClock();
  const settled: string[] = [];
  const answers: ((exchange: Exchange) => void)[] = [];
  const queue = new DestinationQueue(destination('http://127.0.0.1:9/'), 'Rollcall', new Map(), {
    ...hooks(clock, settled),
    post: (_, done) => void answers.push(done),
    onEndpointChange: () => {
      throw new Error('The endpoint could not be paused.');
    },
  });
  queue.add(sixteen('lost'));
  queue.abandon();
  const exchange = { outcome: 'refused', status: 410, error: 'status_410', response: null, retryAfter: null } as const;
  for (const answer of answers) answer({ ...exchange, at: clock.now(), startedAt: clock.monotonic(), ms: 1 });
  await queue.drained();
  t.equal(answers.length, 16);
  t.same(settled, []);
});

t.test('frees the window places of attempts that fail by our fault', async (t) => {
  const clock = new ManualClock();
  const settled: string[] = [];
  const queue = new DestinationQueue(destination('http://127.0.0.1:9/'), 'Rollcall', new Map(), {
    ...hooks(clock, settled),
    post: ({ headers }, done) => {
      if (headers.some((value) => value.startsWith('broken'))) throw new Error('The body could not be signed.');
      done(taken(clock));
    },
  });
  queue.add(sixteen('broken'));
  await queue.drained();
  queue.add(sixteen('good'));
  await queue.drained();
  t.same(settled, [...Array(16).fill('dead'), ...Array(16).fill('delivered')]);
});
