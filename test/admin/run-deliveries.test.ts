import t from 'tap';
import { awaitDeliveries } from '../../src/admin/run-deliveries.ts';
import type { Destination } from '../../src/destination.ts';
import type { EndpointState, RunProgress } from '../../src/store/port.ts';

const crm: Destination = {
  ...{ name: 'crm', enabled: true, sources: ['shop'], secrets: [], require: 'any', ratePerSecond: null },
  endpoints: [{ id: 'e1', url: 'https://crm.example.com/hooks', headers: {} }],
};
const dead: EndpointState = { endpoint: 'e1', destination: 'crm', pausedAt: null, deadSince: 1 };
const progress = (untried: number, delivered: number): RunProgress => ({
  ...{ deliveries: untried + delivered, untried, delivered, dead: 0, superseded: 0 },
});

/** Awaits two runs, of which the first goes through these steps, one at each look. */
async function looks(steps: readonly RunProgress[], endpoints: readonly EndpointState[] = []) {
  const seen: number[] = [];
  const end = new AbortController();
  let look = 0;
  const found = await awaitDeliveries(['a', 'b'], {
    store: {
      time: { now: () => 0, toWall: (time) => time },
      runProgress: async (run) =>
        run === 'b' ? progress(0, 1) : (steps[Math.min(look, steps.length - 1)] ?? progress(0, 0)),
      endpoints: async () => endpoints,
      backlog: async () => [],
    },
    destinations: () => [crm],
    clock: {
      sleep: async () => {
        look += 1;
        if (look === 1_000) end.abort();
      },
    },
    signal: end.signal,
    onProgress: ({ untried }) => seen.push(untried),
  });
  return { found, seen, look };
}

t.test('awaits deliveries of several runs until each was tried', async (t) => {
  const { found, seen } = await looks([progress(3, 0), progress(1, 2), progress(0, 3)]);
  t.same(seen, [3, 1, 0]);
  t.same(found, progress(0, 4));
});

t.test('does not wait for deliveries to a dead endpoint, but for others that proceed', async (t) => {
  const { found, look } = await looks([progress(3, 0), progress(2, 1)], [dead]);
  t.equal(found.untried, 2);
  t.ok(look > 10 && look < 100, `${look} looks`);
});

t.test('waits for a slow endpoint until the end', async (t) => {
  const { found, look } = await looks([progress(2, 1)]);
  t.equal(look, 1_000);
  t.equal(found.untried, 2);
});
