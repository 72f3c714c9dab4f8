import fc from 'fast-check';
import t from 'tap';
import type { EndpointFailure } from '../../src/deliver/endpoint/answers.ts';
import { Window } from '../../src/deliver/endpoint/window.ts';

const step = fc.oneof(
  fc.record({ do: fc.constant('begin' as const) }),
  fc.record({ do: fc.constant('succeed' as const), ms: fc.integer({ min: 0, max: 5_000 }) }),
  fc.record({
    do: fc.constant('fail' as const),
    failure: fc.constantFrom<EndpointFailure>('fault', 'overload', 'silence', 'unreachable'),
    again: fc.boolean(),
  }),
  fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 40_000 }) }),
  fc.record({ do: fc.constant('pause' as const) }),
  fc.record({ do: fc.constant('resume' as const) }),
);

t.test('keeps the window within its bounds, and reopens a dead endpoint after one success', async (t) => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 400 }), (steps) => {
      const window = new Window({ pausedAt: null, deadSince: null });
      const begun: number[] = [];
      let now = 1_000;
      for (const each of steps) {
        if (each.do === 'wait') now += each.ms;
        else if (each.do === 'pause') window.pause(now);
        else if (each.do === 'resume') window.resume();
        else if (each.do === 'begin') {
          const free = window.free(now);
          if (window.deadSince !== null && free > 1) return false;
          if (window.pausedAt !== null && free > 0) return false;
          if (free === 0) continue;
          window.begin();
          begun.push(window.begun);
        } else {
          const mark = begun.shift();
          if (mark === undefined) continue;
          if (each.do === 'succeed') window.succeeded(each.ms);
          else window.failed(mark, each.failure, each.again, { steady: now, store: now }, 0.5);
        }
        const isSane = window.inFlight === begun.length && window.size >= 1 && window.size <= 256;
        if (!isSane || Number.isNaN(window.probeAt)) return false;
        if (window.deadSince !== null && window.probeAt > now + 30_000) return false;
      }
      window.resume();
      now += 30_000;
      while (begun.shift() !== undefined) window.succeeded(100);
      return window.open && window.free(now) >= 1;
    }),
  );
  t.pass();
});

interface Flow {
  /** Places used in a round, on the average of the last half of them. */
  readonly size: number;
  readonly window: Window;
}

/** Rounds of an endpoint that fails some of its answers by chance. */
function flow(seed: number, failure: EndpointFailure, share: number, rounds: number, processes = 1): Flow {
  const random = generator(seed);
  const window = new Window({ pausedAt: null, deadSince: null, share: { of: processes, leads: true } });
  // Its first answer is one, so that it is known to be up.
  window.begin();
  window.succeeded(200);
  const inFlight: number[] = [];
  const fill = () => {
    for (let free = window.free(0); free > 0; free -= 1) {
      window.begin();
      inFlight.push(window.begun);
    }
  };
  let used = 0;
  for (let round = 0; round < rounds; round += 1) {
    fill();
    for (const begun of inFlight.splice(0)) {
      if (round >= rounds / 2) used += 1;
      if (random() >= share) window.succeeded(200);
      else window.failed(begun, failure, false, { steady: round, store: round }, random());
      fill();
    }
  }
  return { size: used / (rounds / 2), window };
}

/** Uniform and repeatable (mulberry32). */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const seed = fc.integer();
const processes = fc.constantFrom(1, 2, 4);

t.test('keeps at least 0.7 of the places with up to a twentieth of random overload signs', async (t) => {
  fc.assert(
    fc.property(seed, fc.double({ min: 0, max: 0.05, noNaN: true }), processes, (of, share, processes) => {
      const { size, window } = flow(of, 'overload', share, 600, processes);
      return window.open && size >= 0.7 * (256 / processes);
    }),
    { numRuns: 30 },
  );
  t.pass();
});

t.test('keeps all places with up to a tenth of other random failures', async (t) => {
  fc.assert(
    fc.property(seed, fc.double({ min: 0, max: 0.1, noNaN: true }), processes, (of, share, processes) => {
      const { size, window } = flow(of, 'fault', share, 40, processes);
      return window.open && size === 256 / processes;
    }),
  );
  t.pass();
});

t.test('leaves a few places with a fifth of overload signs, or mostly failing answers', async (t) => {
  fc.assert(
    fc.property(seed, processes, (of, processes) => {
      const overloaded = flow(of, 'overload', 0.2, 200, processes).size;
      const failing = flow(of, 'fault', 0.7, 200, processes).size;
      return overloaded <= 16 && failing <= 16;
    }),
  );
  t.pass();
});
