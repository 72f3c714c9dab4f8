import fc from 'fast-check';
import t from 'tap';
import { Window } from '../../src/deliver/window.ts';

const step = fc.oneof(
  fc.record({ do: fc.constant('begin' as const) }),
  fc.record({ do: fc.constant('succeed' as const), ms: fc.integer({ min: 0, max: 5_000 }) }),
  fc.record({ do: fc.constantFrom('fail' as const, 'time out' as const) }),
  fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 40_000 }) }),
  fc.record({ do: fc.constantFrom('pause' as const, 'resume' as const) }),
);

t.test('whatever happens, the window keeps its bounds, and a dead endpoint comes back with one success', async (t) => {
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
          window.inFlight += 1;
          begun.push(now);
        } else {
          const startedAt = begun.shift();
          if (startedAt === undefined) continue;
          if (each.do === 'succeed') window.succeeded(each.ms);
          else window.failed(startedAt, now, each.do === 'fail', 0.5);
        }
        const isSane = window.inFlight === begun.length && window.size >= 1 && window.size <= 256;
        if (!isSane || !Number.isInteger(window.probeAt)) return false;
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
