import t from 'tap';
import type { EndpointFailure } from '../../../src/deliver/endpoint/answers.ts';
import { Window } from '../../../src/deliver/endpoint/window.ts';

const at = (time: number) => ({ steady: time, store: time });

function fill(window: Window, now: number): void {
  for (let free = window.free(now); free > 0; free -= 1) window.begin();
}

/** An attempt in flight fails at this time, the one that began last unless told. */
function fail(window: Window, failure: EndpointFailure, now: number, begun = window.begun, random = 0): void {
  window.failed(begun, failure, false, at(now), random);
}

/** Rounds in which every attempt in flight ends alike and makes room for the next; the size after each round. */
function rounds(window: Window, count: number, end: (now: number) => void, start = 0): number[] {
  fill(window, start);
  return Array.from({ length: count }, (_, round) => {
    const now = start + (round + 1) * 1_000;
    for (let left = window.inFlight; left > 0; left -= 1) {
      end(now);
      fill(window, now);
    }
    return window.size;
  });
}

/** Attempts in flight end, a part of them with this failure; then the next begin. */
function mixed(
  window: Window,
  failure: EndpointFailure,
  isFailed: (place: number) => boolean,
  count: number,
): number[] {
  let place = 0;
  return rounds(window, count, (now) => {
    place += 1;
    if (isFailed(place)) fail(window, failure, now, window.begun - window.inFlight + 1);
    else window.succeeded(100);
  });
}

const fresh = () => new Window({ pausedAt: null, deadSince: null });

t.test('doubles with every round of successes, up to its bound', async (t) => {
  const window = fresh();
  t.equal(window.size, 16);
  t.same(
    rounds(window, 6, () => window.succeeded(100)),
    [32, 64, 128, 256, 256, 256],
  );
});

t.test('grows beyond 64 in flight only for slow endpoints', async (t) => {
  const window = fresh();
  t.same(
    rounds(window, 4, () => window.succeeded(5)),
    [32, 64, 64, 64],
  );
});

t.test('does not grow while unused', async (t) => {
  const window = fresh();
  for (let each = 0; each < 1_000; each += 1) {
    window.begin();
    window.succeeded(100);
  }
  t.equal(window.size, 16);
});

t.test('halves once for a round of failures, however many fail together', async (t) => {
  for (const failure of ['fault', 'overload'] as const) {
    const window = fresh();
    rounds(window, 2, () => window.succeeded(100));
    t.equal(window.size, 64);
    const { begun } = window;
    for (let each = 0; each < 64; each += 1) fail(window, failure, 6_000, begun);
    t.equal(window.size, 32, failure);
    fill(window, 0);
    fail(window, failure, 7_000);
    t.equal(window.size, 16, 'the next round halves it again');
  }
});

t.test('halves when clearly more than a tenth are overload signs', async (t) => {
  for (const failure of ['overload', 'silence'] as const) {
    const window = fresh();
    rounds(window, 4, () => window.succeeded(100));
    t.equal(window.size, 256);
    const [size = 0] = mixed(window, failure, (place) => place % 4 === 0, 3).slice(-1);
    t.ok(size <= 64, `a quarter fails: ${size} left`);
  }
});

t.test('keeps nearly all of its size with up to a twentieth of overload signs', async (t) => {
  const window = fresh();
  const sizes = mixed(window, 'overload', (place) => place % 20 === 7, 100);
  t.ok(
    sizes.slice(5).every((size) => size >= 240),
    `${Math.min(...sizes.slice(5))} at least`,
  );
});

t.test('does not shrink for other failures until they are most of the answers', async (t) => {
  const window = fresh();
  t.same(mixed(window, 'fault', (place) => place % 5 === 2, 6).slice(-2), [256, 256], 'a fifth fails');
  const sizes = mixed(window, 'fault', (place) => place % 4 !== 2, 40);
  t.ok(
    sizes.slice(-10).every((size) => size <= 2),
    'three of four fail',
  );
});

t.test('ignores repeated failures of a message while others succeed, and does not die of them', async (t) => {
  const window = fresh();
  rounds(window, 4, () => window.succeeded(100));
  for (let each = 0; each < 1_000; each += 1) {
    fill(window, 0);
    window.failed(window.begun, each % 2 === 0 ? 'fault' : 'silence', true, at(each), 0);
  }
  t.equal(window.size, 256);
  t.ok(window.open);
  for (let each = 0; each < 3; each += 1) fail(window, 'fault', 2_000);
  const first = () => window.begun - window.inFlight + 1;
  rounds(window, 12, (now) => window.failed(first(), 'fault', true, at(now), 0));
  t.notOk(window.open, 'but it does once first tries fail too');
});

t.test('steps back after a single overload sign, above its known good size', async (t) => {
  const window = fresh();
  rounds(window, 4, () => window.succeeded(100));
  fail(window, 'overload', 6_000);
  t.equal(window.size, 255);
  fail(window, 'overload', 6_000, 1);
  t.equal(window.size, 255, 'once a round');
  t.same(
    rounds(window, 17, () => window.succeeded(100), 6_000).slice(-3),
    [255, 255, 256],
    'it waits sixteen rounds before it tries again',
  );
});

t.test('grows by one a round above half of the size that failed', async (t) => {
  const window = fresh();
  rounds(window, 2, () => window.succeeded(100));
  for (let each = 0; each < 64; each += 1) fail(window, 'fault', 6_000);
  t.equal(window.size, 32);
  t.same(rounds(window, 4, () => window.succeeded(100), 6_000).slice(1), [33, 34, 35]);
});

t.test('grows by one a round over four sharing processes, and more slowly after a failure', async (t) => {
  const roundsToGrow = (window: Window) => {
    const { size } = window;
    return rounds(window, 40, () => window.succeeded(100), 9_000).findIndex((now) => now > size) + 1;
  };
  const share = { of: 4, leads: true };
  const recovered = new Window({ pausedAt: null, deadSince: 1, share });
  recovered.hear(null, null, 0);
  rounds(recovered, 2, () => recovered.succeeded(100));
  t.equal(recovered.size, 4, 'a quarter of what a new endpoint gets');
  t.equal(roundsToGrow(recovered), 5, 'each by a quarter');
  const failed = new Window({ pausedAt: null, deadSince: null, share });
  rounds(failed, 4, () => failed.succeeded(100));
  t.equal(failed.size, 64);
  for (let each = 0; each < 64; each += 1) fail(failed, 'fault', 8_500);
  t.equal(failed.size, 32);
  t.ok([16, 17].includes(roundsToGrow(failed)), 'each by a sixteenth');
});

t.test('takes the steps of sharing processes at different times', async (t) => {
  const share = { of: 4, leads: true };
  const firstSteps = [0, 0.25, 0.5, 0.75].map((random) => {
    const window = new Window({ pausedAt: null, deadSince: 1, share });
    window.hear(null, null, random);
    return rounds(window, 12, () => window.succeeded(100)).indexOf(5);
  });
  t.equal(new Set(firstSteps).size, 4, `${firstSteps}`);
});

t.test('gives a near endpoint 64 at once, however slow under load, and a distant one more', async (t) => {
  const near = fresh();
  near.begin();
  near.succeeded(2);
  t.same(rounds(near, 8, () => near.succeeded(400)).at(-1), 64);
  const far = fresh();
  t.same(rounds(far, 8, () => far.succeeded(400)).at(-1), 256);
});

t.test('dies after five failures in a row without an answer', async (t) => {
  for (const failure of ['silence', 'unreachable'] as const) {
    const window = fresh();
    fill(window, 0);
    for (let each = 0; each < 4; each += 1) fail(window, failure, 5_000, 1);
    t.ok(window.open);
    fail(window, failure, 5_000, 1);
    t.notOk(window.open);
    t.equal(window.deadSince, 5_000);
    t.equal(window.size, 1);
  }
});

t.test('dies only at a window of one if the endpoint answers with failures', async (t) => {
  for (const failure of ['fault', 'overload'] as const) {
    const window = fresh();
    const first = () => window.begun - window.inFlight + 1;
    const sizes = rounds(window, 8, (now) => fail(window, failure, now, first()));
    if (failure === 'fault') t.same([...new Set(sizes)], [8, 4, 2, 1]);
    t.equal(sizes.at(-1), 1);
    t.notOk(window.open);
  }
});

t.test('dies after ten failed answers if little used, however large its window had been', async (t) => {
  for (const size of [16, 64, 256]) {
    const window = fresh();
    while (window.size < size) rounds(window, 1, () => window.succeeded(100));
    while (window.inFlight > 0) window.succeeded(100);
    for (let each = 1; each <= 10; each += 1) {
      t.ok(window.open, `${size}, ${each - 1} failures`);
      window.begin();
      fail(window, 'fault', each);
    }
    t.notOk(window.open, `${size}`);
  }
});

t.test('stays alive after a success in between', async (t) => {
  const window = fresh();
  for (let each = 0; each < 100; each += 1) {
    window.begin();
    if (each % 4 === 3) window.succeeded(100);
    else fail(window, 'silence', each * 1_000);
  }
  t.ok(window.open);
});

t.test('probes a dead endpoint one at a time, ever more rarely, at whole milliseconds', async (t) => {
  const window = fresh();
  for (let each = 0; each < 64; each += 1) window.begin();
  for (let each = 0; each < 5; each += 1) fail(window, 'silence', 5_000, 1, 0.3);
  const first = window.probeAt - 5_000;
  t.ok(first >= 500 && first <= 1_000, `half a second to a second (${first})`);
  for (let each = 0; each < 59; each += 1) fail(window, 'silence', 5_000, 64, 0.3);
  t.equal(window.probeAt - 5_000, first, 'what was in flight when it died is no probe');
  const pauses = Array.from({ length: 8 }, () => {
    const { probeAt } = window;
    t.equal(window.free(probeAt - 1), 0);
    t.equal(window.free(probeAt), 1);
    window.begin();
    t.equal(window.free(probeAt), 0, 'one at a time');
    fail(window, 'silence', probeAt + 5_000, window.begun, 0.3);
    t.ok(Number.isInteger(window.probeAt));
    return window.probeAt - probeAt - 5_000;
  });
  t.same(pauses, [1300, 2600, 5200, 10400, 19500, 19500, 19500, 19500]);
});

t.test(
  'opens after a successful probe for one, two, four, up to the size for a new endpoint, then by one',
  async (t) => {
    const died = fresh();
    for (let each = 0; each < 5; each += 1) died.begin();
    for (let each = 0; each < 5; each += 1) fail(died, 'silence', 5_000, 1);
    const restarted = new Window({ pausedAt: null, deadSince: 1 });
    for (const window of [died, restarted]) {
      window.begin();
      window.succeeded(100);
      t.ok(window.open);
      t.same([window.size, ...rounds(window, 6, () => window.succeeded(100))], [2, 4, 8, 16, 16, 17, 18]);
    }
  },
);

t.test('takes nothing while paused, until resumed', async (t) => {
  const window = fresh();
  window.pause(1_000);
  t.equal(window.free(Number.MAX_SAFE_INTEGER), 0);
  t.notOk(window.open);
  window.resume();
  t.equal(window.free(0), 16);
});

t.test('stays dead or paused over a restart', async (t) => {
  t.equal(new Window({ pausedAt: 1, deadSince: null }).free(10), 0);
  const dead = new Window({ pausedAt: null, deadSince: 1 });
  t.notOk(dead.open);
  t.equal(dead.free(10), 1, 'but a probe may go at once');
});
