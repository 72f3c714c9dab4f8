import t from 'tap';
import { DestinationQueue, type QueueHooks } from '../../src/deliver/destination-queue.ts';
import type { Exchange } from '../../src/deliver/exchange.ts';
import type { Claim } from '../../src/store/port.ts';
import { ManualClock } from '../helpers/clock.ts';
import { destination } from './helpers/rig.ts';

/** As many as a new endpoint's window holds. */
function sixteen(name: string): Claim[] {
  const claim = {
    ...({ destination: 'crm', source: 'shop', messageId: 'm', type: 'track', userId: null, body: '{}' } as const),
    ...({
      lane: 'live',
      conflict: null,
      run: null,
      tries: 0,
      acceptedAt: 0,
      firstAt: null,
      marks: {},
      crashes: 0,
    } as const),
  };
  return Array.from({ length: 16 }, (_, index) => ({ ...claim, id: `${name}-${index}` }));
}

function hooks(clock: ManualClock, settled: string[]): Omit<QueueHooks, 'post'> {
  return {
    clock,
    wallTime: () => clock.now(),
    batchMemory: { bytes: 0 },
    servedSince: () => 0,
    holdsClaims: () => true,
    isStopping: () => false,
    onSettled: ({ verdict }) => void settled.push(verdict.kind),
    record: async () => true,
    onSuspect: () => {},
    onUndeliverable: () => {},
    onEndpointChange: () => {},
    onRoom: () => {},
  };
}

t.test('what fails by a fault of ours once the claims are another’s is not given up', async (t) => {
  const clock = new ManualClock();
  const settled: string[] = [];
  const begun = Promise.withResolvers<Exchange>();
  const queue = new DestinationQueue(destination('http://127.0.0.1:9/'), 'Rollcall', new Map(), {
    ...hooks(clock, settled),
    post: () => begun.promise,
  });
  queue.add(sixteen('lost'));
  queue.abandon();
  begun.reject(new Error('The body could not be signed.'));
  await queue.drained();
  t.same(settled, []);
});

t.test('attempts that fail by a fault of ours leave their places in the window to others', async (t) => {
  const clock = new ManualClock();
  const settled: string[] = [];
  const queue = new DestinationQueue(destination('http://127.0.0.1:9/'), 'Rollcall', new Map(), {
    ...hooks(clock, settled),
    post: async ({ headers }) => {
      if (headers.some((value) => value.startsWith('broken'))) throw new Error('The body could not be signed.');
      const exchange = { outcome: 'success', status: 200, error: null, response: null, retryAfter: null } as const;
      return { ...exchange, at: clock.now(), startedAt: clock.monotonic(), ms: 1 };
    },
  });
  queue.add(sixteen('broken'));
  await queue.drained();
  queue.add(sixteen('good'));
  await queue.drained();
  t.same(settled, [...Array(16).fill('dead'), ...Array(16).fill('delivered')]);
});
