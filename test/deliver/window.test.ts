import t from 'tap';
import { Window } from '../../src/deliver/window.ts';

/** Rounds in which every attempt in flight ends alike and makes room for the next; the size after each round. */
function rounds(window: Window, count: number, end: (now: number) => void, start = 0): number[] {
  window.inFlight += window.free(start);
  return Array.from({ length: count }, (_, round) => {
    const now = start + (round + 1) * 1_000;
    for (let left = window.inFlight; left > 0; left -= 1) {
      end(now);
      window.inFlight += window.free(now);
    }
    return window.size;
  });
}

const fresh = () => new Window({ pausedAt: null, deadSince: null });

t.test('it doubles with every round of successes, up to its bound', async (t) => {
  const window = fresh();
  t.equal(window.size, 16);
  t.same(
    rounds(window, 6, () => window.succeeded(100)),
    [32, 64, 128, 256, 256, 256],
  );
});

t.test('more than 64 in flight are for endpoints that take their time', async (t) => {
  const window = fresh();
  t.same(
    rounds(window, 4, () => window.succeeded(5)),
    [32, 64, 64, 64],
  );
});

t.test('it does not grow while it is not used', async (t) => {
  const window = fresh();
  for (let each = 0; each < 1_000; each += 1) {
    window.inFlight += 1;
    window.succeeded(100);
  }
  t.equal(window.size, 16);
});

t.test('a failure halves it, once a round however many fail together', async (t) => {
  const window = fresh();
  rounds(window, 2, () => window.succeeded(100));
  t.equal(window.size, 64);
  t.equal(window.inFlight, 64);
  for (let each = 0; each < 4; each += 1) window.failed(5_000, 6_000, true, 0);
  t.equal(window.size, 32);
  t.equal(window.inFlight, 60);
  window.failed(6_001, 7_000, true, 0);
  t.equal(window.size, 16, 'the next round halves it again');
});

t.test('above half of what failed it grows by one a round', async (t) => {
  const window = fresh();
  rounds(window, 2, () => window.succeeded(100));
  window.failed(5_000, 6_000, true, 0);
  t.equal(window.size, 32);
  t.same(
    rounds(window, 3, () => window.succeeded(100), 6_000),
    [33, 34, 35],
  );
});

t.test('four who share an endpoint grow by one a round together, and more slowly once something failed', async (t) => {
  const roundsToGrow = (window: Window) => {
    const { size } = window;
    return rounds(window, 40, () => window.succeeded(100), 9_000).findIndex((now) => now > size) + 1;
  };
  const share = { of: 4, leads: true };
  const recovered = new Window({ pausedAt: null, deadSince: 1, share });
  recovered.hear(null);
  rounds(recovered, 2, () => recovered.succeeded(100));
  t.equal(recovered.size, 4, 'a quarter of what a new endpoint gets');
  t.equal(roundsToGrow(recovered), 5, 'each by a quarter');
  const failed = new Window({ pausedAt: null, deadSince: null, share });
  rounds(failed, 4, () => failed.succeeded(100));
  t.equal(failed.size, 64);
  failed.failed(8_000, 8_500, true, 0);
  t.equal(roundsToGrow(failed), 16, 'each by a sixteenth');
});

t.test('what is near gets 64 at once, however long it takes while it is busy; what is far gets more', async (t) => {
  const near = fresh();
  near.inFlight = 1;
  near.succeeded(2);
  t.same(rounds(near, 8, () => near.succeeded(400)).at(-1), 64);
  const far = fresh();
  t.same(rounds(far, 8, () => far.succeeded(400)).at(-1), 256);
});

t.test('five failures in a row without an answer make the endpoint dead', async (t) => {
  const window = fresh();
  window.inFlight = 5;
  for (let each = 0; each < 4; each += 1) window.failed(0, 5_000, false, 0);
  t.ok(window.open);
  window.failed(0, 5_000, false, 0);
  t.notOk(window.open);
  t.equal(window.deadSince, 5_000);
  t.equal(window.size, 1);
});

t.test('an endpoint that answers with failures only dies at a window of one', async (t) => {
  const window = fresh();
  const sizes = rounds(window, 5, (now) => window.failed(now, now, true, 0));
  t.same(sizes, [8, 4, 2, 1, 1]);
  t.notOk(window.open);
});

t.test('a success in between keeps it alive', async (t) => {
  const window = fresh();
  for (let each = 0; each < 100; each += 1) {
    window.inFlight += 1;
    const now = each * 1_000;
    if (each % 4 === 3) window.succeeded(100);
    else window.failed(now, now, false, 0);
  }
  t.ok(window.open);
});

t.test('a dead endpoint gets one probe at a time, rarer and rarer, at whole milliseconds', async (t) => {
  const window = fresh();
  window.inFlight = 64;
  for (let each = 0; each < 5; each += 1) window.failed(0, 5_000, false, 0.3);
  const first = window.probeAt - 5_000;
  t.ok(first >= 500 && first <= 1_000, `half a second to a second (${first})`);
  for (let each = 0; each < 59; each += 1) window.failed(0, 5_000, false, 0.3);
  t.equal(window.probeAt - 5_000, first, 'what was in flight when it died is no probe');
  const pauses = Array.from({ length: 8 }, () => {
    const at = window.probeAt;
    t.equal(window.free(at - 1), 0);
    t.equal(window.free(at), 1);
    window.inFlight += 1;
    t.equal(window.free(at), 0, 'one at a time');
    window.failed(at, at + 5_000, false, 0.3);
    t.ok(Number.isInteger(window.probeAt));
    return window.probeAt - at - 5_000;
  });
  t.same(pauses, [1300, 2600, 5200, 10400, 19500, 19500, 19500, 19500]);
});

t.test(
  'a probe that succeeds opens it for one, then two, then four, up to what a new one gets, then by one at a time',
  async (t) => {
    const window = fresh();
    window.inFlight = 5;
    for (let each = 0; each < 5; each += 1) window.failed(0, 5_000, false, 0);
    window.inFlight += 1;
    window.succeeded(100);
    t.ok(window.open);
    t.same([window.size, ...rounds(window, 6, () => window.succeeded(100))], [2, 4, 8, 16, 16, 17, 18]);
  },
);

t.test('a paused endpoint takes nothing until it is resumed', async (t) => {
  const window = fresh();
  window.pause(1_000);
  t.equal(window.free(Number.MAX_SAFE_INTEGER), 0);
  t.notOk(window.open);
  window.resume();
  t.equal(window.free(0), 16);
});

t.test('what was dead or paused before a restart still is', async (t) => {
  t.equal(new Window({ pausedAt: 1, deadSince: null }).free(10), 0);
  const dead = new Window({ pausedAt: null, deadSince: 1 });
  t.notOk(dead.open);
  t.equal(dead.free(10), 1, 'but a probe may go at once');
});
