import t, { type Test } from 'tap';
import { type ReplayOptions, replayLetters } from '../../src/admin/replay-letters.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import type { DeadLetter, NewMessage, Store } from '../../src/store/port.ts';
import { ManualClock } from '../helpers/clock.ts';
import { openTestStore } from '../helpers/store.ts';

/** How long a replay waits for room, in milliseconds. */
const LOOK_AGAIN = 500;

interface Desk {
  readonly clock: ManualClock;
  readonly store: Store;
  readonly stopping: AbortController;
  /** Letters queued after each step. */
  readonly steps: number[];
  readonly full: string[];
  /** How often the values of now were asked for. */
  readonly asked: number[];
  replay(options?: Partial<ReplayOptions>): ReturnType<typeof replayLetters>;
  pending(): Promise<number>;
  /** Delivers so many of what is queued. */
  deliver(limit: number): Promise<void>;
}

/** A store with so many dead letters, and what replays them. */
async function desk(t: Test, dead: number): Promise<Desk> {
  const clock = new ManualClock();
  const store = await openTestStore(20_000, clock);
  t.teardown(() => store.close());
  const messages = Array.from({ length: dead }, (_, index) => letter(index));
  for (let at = 0; at < dead; at += 100) await store.accept({ messages: messages.slice(at, at + 100), step: null });
  const owner = await store.join(1_000_000);
  const claimed = async (limit: number) =>
    (await store.claim(owner, [{ destination: 'crm', limit, order: 'usual' }])).claims.flat();
  const verdict = { kind: 'dead', reason: 'refused', status: 400, firstAt: null } as const;
  // In portions as a worker settles them.
  for (let claims = await claimed(1_000); claims.length > 0; claims = await claimed(1_000)) {
    await store.settle(
      owner,
      claims.map((claim) => ({ claim, verdict, attempts: [] })),
    );
  }
  const stopping = new AbortController();
  const steps: number[] = [];
  const full: string[] = [];
  const asked: number[] = [];
  return {
    ...{ clock, store, stopping, steps, full, asked },
    replay: (options) =>
      replayLetters(pages(store), {
        store,
        currentBodies: async (letters) => {
          asked.push(letters.length);
          return letters.map(() => null);
        },
        clock,
        rate: null,
        maxPending: 10_000,
        signal: stopping.signal,
        onProgress: ({ replayed }) => void steps.push(replayed),
        onFull: (name) => void full.push(name),
        ...options,
      }),
    pending: async () => (await store.backlog())[0]?.pending ?? 0,
    async deliver(limit) {
      const claims = await claimed(limit);
      await store.settle(
        owner,
        claims.map((claim) => ({ claim, verdict: { kind: 'delivered' }, attempts: [] })),
      );
    },
  };
}

function letter(index: number): NewMessage {
  const message = { source: 'shop', messageId: `m${index}`, type: 'track', userId: 'u', body: `${index}` } as const;
  return { ...message, destinations: ['crm'], lane: 'live', conflict: null };
}

async function* pages(store: Store): AsyncGenerator<readonly DeadLetter[]> {
  for (let after: string | undefined; ; ) {
    const page = await store.deadLetters({ limit: 400, ...(after === undefined ? {} : { after }) });
    if (page.length === 0) return;
    yield page;
    after = page.at(-1)?.id;
  }
}

/** Moves the clock until something is reached, but not while the store is asked: its thread has its own time. */
async function passUntil(clock: ManualClock, isReached: () => boolean): Promise<void> {
  while (!isReached()) {
    if (clock.count(LOOK_AGAIN) > 0) clock.advance(100);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

t.test('requeues a thousand letters in a few steps, each reading the current values once', async (t) => {
  const { replay, asked, pending, store } = await desk(t, 1_000);
  t.match(await replay(), { replayed: 1_000, superseded: 0 });
  t.same(asked, [400, 400, 200]);
  t.equal(await pending(), 1_000);
  t.same(await store.deadLetters({ limit: 1 }), []);
});

t.test('replays more than ten thousand letters', async (t) => {
  const { replay, pending, asked } = await desk(t, 12_345);
  t.match(await replay({ maxPending: 20_000 }), { replayed: 12_345 });
  t.equal(await pending(), 12_345);
  t.ok(Math.max(...asked) <= 500, 'however many there are, so many are in memory');
});

t.test('with a rate, requeues that many letters a second', async (t) => {
  const { replay, clock, steps } = await desk(t, 35);
  const done = replay({ rate: 10 });
  for (const queued of [10, 20, 30]) {
    await clock.timer(1_000);
    t.equal(steps.at(-1), queued);
    clock.advance(999);
    t.equal(clock.count(1_000), 1, 'it still waits');
    clock.advance(1);
  }
  await done;
  t.same(steps, [10, 20, 30, 35]);
});

t.test('waits for a destination with a full queue, and says so once', async (t) => {
  const { replay, clock, steps, full, pending, deliver } = await desk(t, 300);
  const done = replay({ maxPending: 100 });
  await passUntil(clock, () => full.length === 1);
  t.equal(await pending(), 100, 'and no more');
  await deliver(50);
  clock.advance(500);
  t.same(steps, [100]);
  await deliver(50);
  await passUntil(clock, () => steps.length === 2);
  t.equal(await pending(), 100);
  await deliver(100);
  await passUntil(clock, () => steps.length === 3);
  t.match(await done, { replayed: 300 });
  t.same(full, ['crm', 'crm']);
});

t.test('fails after a minute without deliveries, and leaves requeued letters in the queue', async (t) => {
  const { replay, clock, pending, store } = await desk(t, 300);
  const startedAt = clock.monotonic();
  let error: unknown;
  void replay({ maxPending: 100 }).catch((reason) => {
    error = reason;
  });
  await passUntil(clock, () => error !== undefined);
  t.match(error, { code: 'queue_full', message: /Is the service running/ });
  t.ok(clock.monotonic() - startedAt >= 60_000);
  t.equal(await pending(), 100);
  t.equal((await store.deadLetters({ limit: 1_000 })).length, 200);
});

t.test('reports how far an interrupted replay got, and continues from there the next time', async (t) => {
  const { replay, stopping, steps, pending } = await desk(t, 1_000);
  const interrupted = await replay({
    onProgress: ({ replayed }) => {
      steps.push(replayed);
      stopping.abort();
    },
  });
  t.equal(interrupted.replayed, 400);
  t.equal(await pending(), 400);
  const rest = await replay({ signal: new AbortController().signal });
  t.equal(rest.replayed, 600);
  t.equal(await pending(), 1_000);
});

t.test('can be interrupted while it waits for its rate or for room', async (t) => {
  const { replay, stopping, steps } = await desk(t, 20);
  const done = replay({ rate: 10 });
  while (steps.length === 0) await new Promise((resolve) => setImmediate(resolve));
  stopping.abort();
  t.match(await done, { replayed: 10 });
});

t.test('keeps letters whose audience can not be read, and counts them by the reason', async (t) => {
  const { replay, store } = await desk(t, 10);
  const error = new RollcallError('snapshot_lost', 'a: it is gone.');
  const result = await replay({
    currentBodies: async (letters) => letters.map((_, place) => (place % 2 === 0 ? error : null)),
  });
  t.same(result, { replayed: 5, superseded: 0, left: new Map([['snapshot_lost: a: it is gone.', 5]]) });
  t.equal((await store.deadLetters({ limit: 100 })).length, 5);
});
