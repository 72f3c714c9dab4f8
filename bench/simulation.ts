/**
 * A model of many processes and many endpoints, with the windows of `src/deliver/endpoint/window.ts` and the shares of
 * `src/deliver/share.ts` themselves: how fairly what is pending is served, and what an endpoint sees when it comes back
 * after an hour. `node bench/simulation.ts` [--processes 1000] [--endpoints 100000] [--sample 400] [--capacity 20].
 *
 * Endpoints do not influence each other in the model (claims go per destination), so a sample of them is played, each
 * with the processes that serve it, which hear of each other's findings once a second. Two messages arrive per endpoint and second; an
 * endpoint answers within one step while no more than `capacity` are in flight to it, and 503 beyond that. A delivery that
 * failed comes back by the backoff of `src/kernel/retry.ts`; one that is held back by the windows stays pending, uncharged.
 *
 * Few retries wait when the endpoint comes back, some ten: most of those after the outage come from the drain itself,
 * whose windows feel for what the endpoint can take. There are the more of them the less it can take. Ten seconds hold
 * some ten, and the highest of the few tens of seconds that a drain takes differs by chance: the mean over 20 endpoints is good
 * to some 0.06, hence the sample and the ± (95 %).
 */
import { parseArgs } from 'node:util';
import { Window } from '../src/deliver/endpoint/window.ts';
import { shareOf } from '../src/deliver/share.ts';
import { backoff } from '../src/kernel/retry.ts';

const { values } = parseArgs({
  options: {
    processes: { type: 'string', default: '1000' },
    endpoints: { type: 'string', default: '100000' },
    sample: { type: 'string', default: '400' },
    capacity: { type: 'string', default: '20' },
  },
});
const processes = Number(values.processes);
const STEP = 100;
const MINUTE = 60_000;
const OUTAGE = { from: 2 * MINUTE, to: 62 * MINUTE };
const END = 90 * MINUTE;
const RATE = 2;
const CAPACITY = Number(values.capacity);

interface Result {
  readonly received: number;
  readonly delivered: number;
  /** Posts per second while it was down. */
  readonly probes: number;
  /** Highest rates over ten seconds after it came back, to the normal rate. */
  readonly peak: number;
  readonly peakRetries: number;
  /** Posts for each delivery from its coming back until nothing was pending. */
  readonly postsPerDelivery: number;
  /** Milliseconds from its first answer until nothing waited for its first try. */
  readonly caughtUp: number;
  /** Milliseconds from its coming back until nothing was pending. */
  readonly drained: number;
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

const owners = Array.from({ length: processes }, (_, index) => index + 1);

/** One endpoint with a window in each process that serves it. */
function play(seed: number): Result {
  const random = generator(seed);
  const windows = owners
    .flatMap((owner) => shareOf(`endpoint-${seed}`, owner, owners) ?? [])
    .map((share) => new Window({ pausedAt: null, deadSince: null, share }));
  let deadSince: number | null = null;
  const retries: { at: number; tries: number }[] = [];
  let fresh = 0;
  let received = 0;
  let delivered = 0;
  let probes = 0;
  let answeredAt = Number.POSITIVE_INFINITY;
  let caughtUp = Number.POSITIVE_INFINITY;
  let drained = Number.POSITIVE_INFINITY;
  let deliveredAfter = 0;
  const posts: { at: number; retry: boolean }[] = [];
  for (let now = 0; now < END; now += STEP) {
    const arriving = (RATE * STEP) / 1_000;
    const count = Math.floor(arriving) + (random() < arriving % 1 ? 1 : 0);
    fresh += count;
    received += count;
    const up = now < OUTAGE.from || now >= OUTAGE.to;
    if (now % 1_000 === 0) for (const window of windows) window.hear(deadSince, null, random());
    const started: { window: Window; begun: number; tries: number }[] = [];
    const first = Math.floor(random() * windows.length);
    for (let n = 0; n < windows.length && fresh + retries.length > 0; n += 1) {
      const window = windows[(first + n) % windows.length] as Window;
      for (let free = window.free(now); free > 0; free -= 1) {
        const due = retries[0] !== undefined && retries[0].at <= now;
        const retried = due && (fresh === 0 || !window.open || random() < 1 / 8);
        if (!retried && fresh === 0) break;
        const tries = retried ? (retries.shift()?.tries ?? 1) : 0;
        if (!retried) fresh -= 1;
        window.begin();
        started.push({ window, begun: window.begun, tries });
        if (now >= OUTAGE.to && drained === Number.POSITIVE_INFINITY) posts.push({ at: now, retry: retried });
      }
    }
    if (!up) probes += started.length;
    for (const [place, { window, begun, tries }] of started.entries()) {
      const before = window.deadSince;
      if (up && place < CAPACITY) {
        window.succeeded(STEP / 2);
        delivered += 1;
        if (now >= OUTAGE.to) answeredAt = Math.min(answeredAt, now);
        if (now >= OUTAGE.to && drained === Number.POSITIVE_INFINITY) deliveredAfter += 1;
      } else {
        const at = { steady: now + STEP, store: now + STEP };
        window.failed(begun, up ? 'overload' : 'unreachable', tries > 0, at, random());
        insert(retries, { at: now + backoff(tries + 1, random()), tries: tries + 1 });
      }
      if (window.deadSince !== before) deadSince = window.deadSince;
    }
    if (now > answeredAt && fresh === 0) caughtUp = Math.min(caughtUp, now - answeredAt);
    if (now >= OUTAGE.to && fresh + retries.length === 0) drained = Math.min(drained, now - OUTAGE.to);
  }
  const seconds = (OUTAGE.to - OUTAGE.from) / 1_000;
  const after = (retry: boolean) => peakRate(posts.filter((post) => !retry || post.retry).map(({ at }) => at)) / RATE;
  const postsPerDelivery = posts.length / deliveredAfter;
  return {
    received,
    delivered,
    probes: probes / seconds,
    peak: after(false),
    peakRetries: after(true),
    postsPerDelivery,
    caughtUp,
    drained,
  };
}

/** Keeps the earliest first. */
function insert(retries: { at: number; tries: number }[], retry: { at: number; tries: number }): void {
  let [low, high] = [0, retries.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((retries[middle]?.at ?? 0) < retry.at) low = middle + 1;
    else high = middle;
  }
  retries.splice(low, 0, retry);
}

function peakRate(times: readonly number[]): number {
  const perTen = new Map<number, number>();
  for (const at of times) perTen.set(Math.floor(at / 10_000), (perTen.get(Math.floor(at / 10_000)) ?? 0) + 1);
  return Math.max(0, ...perTen.values()) / 10;
}

const results = Array.from({ length: Number(values.sample) }, (_, seed) => play(seed + 1));
const mean = (of: (result: Result) => number) => results.reduce((sum, each) => sum + of(each), 0) / results.length;
/** The mean over the endpoints, and how far it may be from that over all of them. */
function measured(of: (result: Result) => number, digits: number): string {
  const middle = mean(of);
  const variance = mean((result) => (of(result) - middle) ** 2);
  return `${middle.toFixed(digits)} ± ${(1.96 * Math.sqrt(variance / (results.length - 1))).toFixed(digits)}`;
}
const shares = results.map(({ delivered, received }) => delivered / received);
const jain = shares.reduce((sum, x) => sum + x, 0) ** 2 / (shares.length * shares.reduce((sum, x) => sum + x * x, 0));
console.log(`${processes} processes, ${results.length} of ${values.endpoints} endpoints, ${RATE} messages/s each`);
console.table({
  'fairness between endpoints (Jain, 1 is best)': jain.toFixed(4),
  'posts per second to an endpoint that is down': measured(({ probes }) => probes, 3),
  'highest rate of posts after the outage, to the normal rate': measured(({ peak }) => peak, 1),
  'highest rate of retries after the outage, to the normal rate': measured(({ peakRetries }) => peakRetries, 2),
  'posts for each delivery after the outage, while it drains': measured((result) => result.postsPerDelivery, 3),
  'seconds until the hour has had its first try': measured(({ caughtUp }) => caughtUp / 1_000, 1),
  'minutes until its last retry': measured(({ drained }) => drained / MINUTE, 1),
});
