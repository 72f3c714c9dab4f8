import { AsyncLocalStorage } from 'node:async_hooks';
import { once } from 'node:events';
import { setImmediate as turn } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { systemClock } from '../../receivers/clock.ts';
import { createReceiver as createEdgeReceiver } from '../../receivers/edge.ts';
import {
  createReceiver,
  createVerifyAndParse,
  type Failure,
  memoryStore,
  type ReceiverStore,
  type StandaloneOptions,
} from '../../receivers/index.ts';
import { sqliteStore } from '../../receivers/sqlite.ts';
import { envelope, signed, webhook } from '../../receivers/testing.ts';
import { manualClock, signal } from './helpers/clock.ts';
import { silent } from './helpers/hosts.ts';
import { membership, secret } from './helpers/samples.ts';

const request = (body: unknown, headers: Record<string, string> = {}, key = secret) => {
  const made = signed(body, key);
  return new Request('http://app.example/hooks', {
    method: 'POST',
    body: made.body,
    headers: { ...made.headers, ...headers },
  });
};

function start(options: Partial<StandaloneOptions>) {
  const hooks = createReceiver({ secret, on: {}, log: silent, ...options } as StandaloneOptions);
  const send = async (body: unknown, headers?: Record<string, string>, key?: string) => {
    const response = await hooks.handle(request(body, headers, key));
    return { status: response.status, ...((await response.json()) as Record<string, unknown>) };
  };
  return { ...hooks, send };
}

t.test('answers 503 in time if a handler is too slow, and joins the repetition to it', async (t) => {
  const clock = manualClock();
  const [started, release] = [signal(), signal()];
  let calls = 0;
  const track = async () => {
    calls += 1;
    started.resolve();
    await release.promise;
  };
  const { send, close } = start({ clock, deadline: 4500, on: { track } });
  const body = webhook('track');
  const first = send(body);
  await started.promise;
  clock.advance(4500);
  t.match(await first, { status: 503, code: 'deadline' });
  const second = send(body);
  release.resolve();
  t.match(await second, { status: 200, received: true });
  t.match(await send(body), { status: 200, duplicate: true });
  t.equal(calls, 1);
  t.equal(clock.waiting(), 0, 'no timer is left behind');
  await close();
  t.equal(clock.timers(), 0, 'nor one in the background');
});

t.test('reports a failure after the deadline as late', async (t) => {
  const clock = manualClock();
  const [started, release, told] = [signal(), signal(), signal<Failure>()];
  const { send } = start({
    clock,
    on: {
      async track() {
        started.resolve();
        await release.promise;
      },
      error: (_, failure) => told.resolve(failure),
    },
  });
  const first = send(webhook('track'));
  await started.promise;
  clock.advance(5000);
  t.match(await first, { status: 503 });
  release.reject(new Error('too late'));
  t.match(await told.promise, { stage: 'handler', late: true, message: { type: 'track' } });
});

t.test('handles concurrent repetitions once and answers them alike, even on failure', async (t) => {
  for (const fails of [false, true]) {
    const [started, release] = [signal(), signal()];
    let calls = 0;
    const { send } = start({
      on: {
        async any() {
          calls += 1;
          started.resolve();
          await release.promise;
        },
      },
    });
    const body = webhook('track');
    const all = [send(body), send(body), send(body)];
    await started.promise;
    if (fails) release.reject(new Error('boom'));
    else release.resolve();
    t.same(
      (await Promise.all(all)).map(({ status }) => status),
      Array(3).fill(fails ? 500 : 200),
    );
    t.equal(calls, 1);
  }
});

t.test('uses the Idempotency-Key only if no secret is set', async (t) => {
  for (const [secretOption, expected] of [
    [secret, 2],
    [false, 1],
  ] as const) {
    let calls = 0;
    const { send } = start({ secret: secretOption, on: { any: () => ++calls } });
    for (const body of [webhook('track'), webhook('track')]) await send(body, { 'idempotency-key': 'same' });
    t.equal(calls, expected);
  }
});

t.test('finds the secret of each tenant by a function: unknown tenants are 401, its failure is 503', async (t) => {
  const failures: Failure[] = [];
  const warned: unknown[] = [];
  const { send, handle } = start({
    async secret({ url, header }) {
      t.equal(url, '/hooks');
      if (header('x-tenant') === 'broken') throw new Error('the vault is down');
      return header('x-tenant') === 'a' ? ['older', 'secret of a'] : [];
    },
    log: { ...silent, warn: ({ hint }) => warned.push(hint) },
    on: { error: (_, failure) => void failures.push(failure) },
  });
  t.match(await send(webhook('track'), { 'x-tenant': 'a' }, 'secret of a'), { status: 200 });
  t.match(await send(webhook('track'), { 'x-tenant': 'b' }, 'secret of a'), {
    status: 401,
    code: 'signature_mismatch',
  });
  t.same(warned, ['the secret function has no secret for this request']);
  t.match(await send(webhook('track'), { 'x-tenant': 'broken' }), { status: 503, code: 'secret_unavailable' });
  t.match(failures, [{ stage: 'secret' }]);
  t.equal((await handle(request(webhook('track'), { 'x-tenant': 'broken' }))).headers.get('retry-after'), '1');
});

t.test('answers 503 if the secret is not found in time', async (t) => {
  const clock = manualClock();
  const asked = signal();
  const { send } = start({
    clock,
    secret() {
      asked.resolve();
      return new Promise<string>(() => {});
    },
  });
  const answer = send(webhook('track'));
  await asked.promise;
  await new Promise(setImmediate);
  clock.advance(4500);
  t.match(await answer, { status: 503, code: 'secret_unavailable' });
});

t.test('turns membership changes into entered and exited, and ignores late ones', async (t) => {
  const seen: string[] = [];
  const { send } = start({
    on: {
      audience: {
        big_spenders: {
          entered: ({ userId }) => void seen.push(`+${userId}`),
          exited: ({ userId }) => void seen.push(`-${userId}`),
        },
      },
      identify: ({ userId }) => void seen.push(`identify ${userId}`),
    },
  });
  await send(membership('big_spenders', 'u1', true, 1));
  await send(membership('big_spenders', 'u1', false, 3));
  t.match(await send(membership('big_spenders', 'u1', true, 2)), { status: 200, stale: true });
  await send(membership('big_spenders', 'u2', true, 2));
  await send(membership('constructor', 'u3', true, 1));
  await send(webhook('identify', { userId: 'u4', traits: { big_spenders: true } }));
  t.same(seen, ['+u1', '-u1', '+u2', 'identify u3', 'identify u4']);
});

t.test('runs an exit after a running entry of the same user', async (t) => {
  const seen: string[] = [];
  const [started, release] = [signal(), signal()];
  const { send } = start({
    on: {
      audience: {
        vips: {
          async entered() {
            started.resolve();
            await release.promise;
            seen.push('entered');
          },
          exited: () => void seen.push('exited'),
        },
      },
    },
  });
  const entry = send(membership('vips', 'u1', true, 1));
  await started.promise;
  const exit = send(membership('vips', 'u1', false, 2));
  await send(membership('vips', 'u2', false, 2));
  release.resolve();
  await Promise.all([entry, exit]);
  t.same(seen, ['exited', 'entered', 'exited']);
});

t.test('does not treat a retried change as stale', async (t) => {
  let calls = 0;
  const entered = () => {
    calls += 1;
    if (calls === 1) throw new Error('boom');
  };
  const { send } = start({ on: { audience: { vips: { entered } } } });
  t.match(await send(membership('vips', 'u1', true, 7)), { status: 500 });
  t.match(await send(membership('vips', 'u1', true, 7)), { status: 200, received: true });
  t.equal(calls, 2);
});

t.test('runs the handlers inside around, through which their failures pass', async (t) => {
  const spans = new AsyncLocalStorage<string>();
  const seen: unknown[] = [];
  const hooks = createReceiver({
    secret,
    log: silent,
    on: {
      around: (message, _, next) => spans.run(`span of ${message.type}`, next),
      any: () => void seen.push(spans.getStore()),
      async track({ event }) {
        await Promise.resolve();
        seen.push(spans.getStore());
        if (event === 'boom') throw new Error('boom');
      },
      error: (error) => void seen.push(String(error)),
    },
  });
  const send = async (fields: object) => {
    const given = signed(webhook('track', { ...fields }), secret);
    return (await hooks.handle(new Request('http://app/hooks', { method: 'POST', ...given }))).status;
  };
  t.equal(await send({}), 200);
  t.equal(await send({ event: 'boom' }), 500);
  t.equal(await send({ type: 'survey' }), 200);
  const span = 'span of track';
  t.same(seen, [span, span, span, span, 'Error: boom']);
});

t.test('fails if around runs no handler', async (t) => {
  const { send } = start({ on: { around: () => {}, track: () => t.fail('it is not called') } });
  t.match(await send(webhook('track')), { status: 500 });
});

t.test('fails if around does not wait for the handler, and outlives its failure', async (t) => {
  const failure = Promise.withResolvers<void>();
  const { send } = start({ on: { around: (_message, _request, next) => void next(), track: () => failure.promise } });
  t.match(await send(webhook('track')), { status: 500 });
  failure.reject(new Error('boom'));
  // Node ends the process for an unhandled rejection by then.
  await new Promise(setImmediate);
});

t.test('answers 200 and calls unhandled for messages without a handler, unknown kinds included', async (t) => {
  const seen: string[] = [];
  const { send } = start({ on: { track() {}, unhandled: ({ type }) => void seen.push(type) } });
  t.match(await send(webhook('page')), { status: 200, unhandled: true });
  t.match(await send(webhook('track', { type: '__proto__' })), { status: 200, unhandled: true });
  t.match(await send(webhook('track', { type: 'constructor' })), { status: 200, unhandled: true });
  t.same(seen, ['page', '__proto__', 'constructor']);
});

t.test('hands an event to the handler of its name, or of all others', async (t) => {
  const seen: string[] = [];
  const track = {
    'Order Completed': ({ properties }: { properties: { total?: unknown } }) =>
      void seen.push(`total ${properties.total}`),
    constructor: () => void seen.push('constructor'),
  };
  const { send } = start({ on: { track } });
  t.same(await send(webhook('track', { properties: { total: 5 } })), { status: 200, received: true });
  t.match(await send(webhook('track', { event: 'Order Complete' })), { status: 200, unhandled: true });
  t.match(await send(webhook('track', { event: '__proto__' })), { status: 200, unhandled: true });
  await send(webhook('track', { event: 'constructor' }));
  const others = start({ on: { track: { ...track, '*': ({ event }) => void seen.push(event) } } });
  t.same(await others.send(webhook('track', { event: 'toString' })), { status: 200, received: true });
  t.same(seen, ['total 5', 'constructor', 'toString']);
  t.throws(() => createReceiver({ secret, on: { track: { A: 'b' } } } as never), /^on.track.A is a function/);
});

t.test('quarantines bodies that do not parse instead of losing them with a 400', async (t) => {
  const kept: string[] = [];
  const invalid = { reason: '', text: '' };
  const { send } = start({
    on: {
      invalid({ reason, detail }, { rawBody }) {
        if (rawBody.includes('poison')) throw new Error('the quarantine is full');
        Object.assign(invalid, { reason, text: detail });
        kept.push(rawBody.toString());
      },
    },
  });
  t.match(await send('{"type":"track"}'), { status: 200, quarantined: true });
  t.same(kept, ['{"type":"track"}']);
  t.equal(invalid.reason, 'invalid_body');
  t.match(invalid.text, 'event');
  t.match(await send('poison'), { status: 500 });
});

t.test('answers 503 if the store fails before the handlers, and as usual if it fails after them', async (t) => {
  const stages: string[] = [];
  let failing: string[] = ['begin'];
  const check = (verb: string) => {
    if (failing.includes(verb)) throw new Error(`${verb} failed`);
  };
  const store: ReceiverStore = {
    lease: 60_000,
    begin: async () => {
      check('begin');
      return 'new' as const;
    },
    renew: () => true,
    async done() {
      check('done');
      return true;
    },
    release: () => check('release'),
  };
  let calls = 0;
  const on = { any: () => ++calls, error: (_: unknown, { stage }: Failure) => void stages.push(stage) };
  const { send } = start({ store, on });
  t.match(await send(webhook('track')), { status: 503, code: 'store_failed' });
  t.equal(calls, 0);
  failing = ['done'];
  t.match(await send(webhook('track')), { status: 200 });
  t.equal(calls, 1);
  t.same(stages, ['store', 'store']);
});

t.test('answers 503 while another process handles the request', async (t) => {
  const store: ReceiverStore = { ...memoryStore(), begin: () => 'running' };
  t.match(await start({ store }).send(webhook('track')), { status: 503, code: 'in_progress' });
});

t.test('waits for handlers on close, including late ones, and refuses new requests', async (t) => {
  const clock = manualClock();
  const [started, release] = [signal(), signal()];
  let done = false;
  const { send, close } = start({
    clock,
    on: {
      async track() {
        started.resolve();
        await release.promise;
        done = true;
      },
    },
  });
  const first = send(webhook('track'));
  await started.promise;
  clock.advance(5000);
  t.match(await first, { status: 503 });
  const closed = close();
  t.match(await send(webhook('track')), { status: 503, code: 'closing' });
  t.equal(done, false);
  release.resolve();
  await closed;
  t.equal(done, true);
});

/** A handler that stops at the abort, as polite ones do, but says nothing of it. */
async function stops({ signal: aborts }: { readonly signal: AbortSignal }): Promise<void> {
  if (!aborts.aborted) await once(aborts, 'abort');
}

t.test('does not take a message for handled whose handler returned at the abort by the deadline', async (t) => {
  for (const make of [createReceiver, createEdgeReceiver]) {
    for (const isBatch of [false, true]) {
      const clock = manualClock();
      const failures: [unknown, Failure][] = [];
      const started = signal();
      let calls = 0;
      const { handle } = make({
        secret,
        clock,
        log: silent,
        on: {
          async track(_, received) {
            calls += 1;
            if (calls > 1) return;
            started.resolve();
            await stops(received);
          },
          error: (error, failure) => void failures.push([error, failure]),
        },
      });
      const given = webhook('track');
      const body = isBatch ? envelope([given], { keys: ['a'] }) : given;
      const first = handle(request(body));
      await started.promise;
      clock.advance(4500);
      t.match(await (await first).text(), 'deadline');
      await turn();
      t.match(failures, [[/throwIfAborted/, { stage: 'handler', late: true }]]);
      t.same(await (await handle(request(body))).json(), { received: true });
      t.equal(calls, 2);
      t.match(await (await handle(request(body))).json(), isBatch ? { received: true } : { duplicate: true });
      t.equal(calls, 2);
    }
  }
});

t.test('does not take a change for handled whose turn came after its deadline', async (t) => {
  const clock = manualClock();
  const [started, release] = [signal(), signal()];
  const seen: (string | undefined)[] = [];
  const { send } = start({
    clock,
    on: {
      audience: {
        club: {
          async entered() {
            started.resolve();
            await release.promise;
          },
          exited(_, received) {
            if (!received.signal.aborted) seen.push('exited');
          },
        },
      },
    },
  });
  const [first, second] = [membership('club', 'u1', true, 1), membership('club', 'u1', false, 2)];
  const answers = [send(first), send(second)];
  await started.promise;
  clock.advance(4500);
  for (const answer of answers) t.match(await answer, { status: 503 });
  release.resolve();
  await turn();
  t.match(await send(second), { status: 200, received: true });
  t.same(seen, ['exited']);
});

t.test('does not take a message for handled whose handler returned at the abort by the drain', async (t) => {
  for (const ack of ['handled', 'stored'] as const) {
    const clock = manualClock();
    const store = sqliteStore(':memory:', { now: clock.now });
    const started = signal();
    const failed = signal<Failure>();
    const polite = start({
      ack,
      store,
      clock,
      drain: 1000,
      deadline: 60_000,
      on: {
        async track(_, received) {
          started.resolve();
          await stops(received);
        },
        error: (_, failure) => failed.resolve(failure),
      },
    });
    const body = webhook('track');
    const first = polite.send(body);
    await started.promise;
    const closed = polite.close();
    await turn();
    clock.advance(1000);
    await closed;
    t.equal((await first).status, ack === 'handled' ? 503 : 200);
    t.match(await failed.promise, { stage: 'handler', late: true });

    const handled = signal();
    clock.advance(store.lease);
    const next = start({ ack, store, clock, on: { track: () => handled.resolve() } });
    if (ack === 'handled') t.match(await next.send(body), { status: 200, received: true });
    await handled.promise;
    await next.close();
    store.close();
  }
});

t.test('does not wait for ever on close', async (t) => {
  const clock = manualClock();
  const started = signal<AbortSignal>();
  const { send, close } = start({
    clock,
    deadline: 60_000,
    drain: 1000,
    on: {
      track(_, { signal }) {
        started.resolve(signal);
        return new Promise(() => {});
      },
    },
  });
  void send(webhook('track'));
  const aborts = await started.promise;
  const closed = close();
  await Promise.resolve();
  clock.advance(1000);
  await closed;
  t.equal(aborts.aborted, true);
});

t.test("ack 'stored' answers at once, retries automatically and resumes after a restart", async (t) => {
  const file = `${t.testdir()}/inbox.db`;
  const clock = manualClock();
  let store = sqliteStore(file, { now: clock.now });
  const [failed, done, restarted] = [signal<Failure>(), signal(), signal<unknown>()];
  let calls = 0;
  const { send, close } = start({
    ack: 'stored',
    store,
    clock,
    on: {
      async track() {
        calls += 1;
        if (calls === 1) throw new Error('not yet');
        done.resolve();
      },
      page: () => Promise.reject(new Error('never')),
      error: (_, failure) => failed.resolve(failure),
    },
  });
  const body = webhook('track');
  t.match(await send(body), { status: 200, stored: true });
  t.match(await send(body), { status: 200, duplicate: true });
  t.match(await failed.promise, { stage: 'handler', gaveUp: false });
  while (calls < 2) {
    await new Promise(setImmediate);
    clock.advance(100);
  }
  await done.promise;
  const page = webhook('page');
  t.match(await send(page), { status: 200, stored: true });
  t.match(await send('not JSON'), { status: 400 });
  await close();
  store.close();

  store = sqliteStore(file);
  const next = start({ ack: 'stored', store, on: { page: (message) => restarted.resolve(message) } });
  t.same(await restarted.promise, page);
  await next.close();
  t.same(await store.due(10, [], ''), []);
  store.close();
});

async function giveUp(t: Test, thrown: unknown, reason: string | RegExp): Promise<void> {
  const clock = manualClock();
  const store = sqliteStore(':memory:', { now: clock.now });
  const failures: Failure[] = [];
  const { send, close } = start({
    ack: 'stored',
    store,
    clock,
    on: {
      track: () => Promise.reject(thrown),
      error: (_, failure) => void failures.push(failure),
    },
  });
  const body = webhook('track');
  t.match(await send(body), { stored: true });
  for (let tries = 1; tries <= 6; tries += 1) {
    while (failures.length < tries) await new Promise(setImmediate);
    await new Promise(setImmediate);
    clock.advance(600_000);
  }
  t.same(
    failures.map(({ gaveUp }) => gaveUp),
    [false, false, false, false, false, true],
  );
  t.same(await store.due(10, [], ''), []);
  t.match(await store.givenUp(10), [{ tries: 6, reason }]);
  t.match(await send(body), { stored: true }, 'the sender may bring it again');
  await close();
  store.close();
}

t.test("ack 'stored' gives up after its tries and keeps the request", async (t) => {
  await giveUp(t, new Error('never'), 'Error: never');
  await giveUp(t, Object.create(null), /cannot be turned into text/);
});

t.test('logs the reason for a mismatch and the usual mistake that fits', async (t) => {
  const cases: [body: string, signed: string, key: string, hint: RegExp][] = [
    [JSON.stringify(webhook('track')), '', ` ${secret}\n`, /white space around it/],
    [JSON.stringify(webhook('track'), null, 2), 'restringified', secret, /parsed and stringified again/],
    [`${JSON.stringify(webhook('track'))}\n`, 'trimmed', secret, /white space around it that was not signed/],
  ];
  for (const [body, form, key, hint] of cases) {
    const lines: Record<string, unknown>[] = [];
    const log = { warn: (fields: Record<string, unknown>) => void lines.push(fields), error() {} };
    const text = form === 'restringified' ? JSON.stringify(JSON.parse(body)) : form === 'trimmed' ? body.trim() : body;
    const { headers } = signed(text, secret);
    const { handle } = createReceiver({ secret: key, on: {}, log, hints: true });
    const response = await handle(new Request('http://app.example/hooks', { method: 'POST', body, headers }));
    t.equal(response.status, 401);
    t.match(lines, [{ reason: 'signature_mismatch', url: '/hooks', hint }]);
    t.notMatch(JSON.stringify(lines), secret, 'the secret is not logged');
  }
});

t.test('checks for usual mistakes once a second, and not in large bodies', async (t) => {
  const hints: unknown[] = [];
  const log = { warn: ({ hint }: Record<string, unknown>) => void hints.push(hint), error() {} };
  const clock = manualClock();
  const hooks = createReceiver({ secret, on: {}, log, hints: true, clock });
  const mistaken = (size: number) => {
    const bytes = ` ${JSON.stringify({ text: 'x'.repeat(size) })}`;
    return { bytes, header: signed(bytes.trim(), secret).headers['x-signature'] as string };
  };
  const send = async (size: number) => {
    const { bytes, header } = mistaken(size);
    t.equal((await hooks.handle(request(bytes, { 'x-signature': header }))).status, 401);
  };
  await send(10);
  await send(10);
  clock.advance(1000);
  await send(20_000);
  await send(10);
  const found = 'the body has white space around it that was not signed';
  t.same(hints, [found, undefined, undefined, found]);
});

t.test('refuses handlers that would never be called, and invalid options, at once', async (t) => {
  const wrong: [object, RegExp][] = [
    [{ on: undefined }, /^on is an object/],
    [{ on: { deleted() {} } }, /^on.deleted would never be called: give identify, /],
    [{ on: { delete: 'forget' } }, /^on.delete is a function/],
    [
      { on: { audience: { club: { enter() {} } } } },
      /^on.audience.club.enter would never be called: give entered, exited/,
    ],
    [{ on: { audience: { club: null } } }, /^on.audience.club is an object/],
    [{ on: [{ track() {} }] }, /^on is an object/],
    [{ on: { track: new Map([['Order Completed', () => {}]]) } }, /^on.track is an object/],
    [{ on: { audience: new Map([['club', {}]]) } }, /^on.audience is an object/],
    [{ on: { audience: { 'Big Spenders': {} } } }, /^on.audience\["Big Spenders"\] .*audience, big_spenders$/],
    [{ on: { trait: { "Köln's  LTV90": {} } } }, /^on.trait\["Köln's {2}LTV90"\] .*trait, kolns_ltv_90$/],
    [{ secrets: secret }, /^secrets is not an option: give secret, on, /],
    [{ deadLine: 60_000 }, /^deadLine is not an option/],
    [{ on: { trait: { '*': { lost() {} } } } }, /^on.trait.\*.lost would never be called: give changed, gone/],
    [{ bodyLimit: '1mb' }, /^bodyLimit is a number above 0, not 1mb/],
    [{ bodyLimit: 0 }, /^bodyLimit is a number above 0, not 0/],
    [{ deadline: Number.NaN }, /^deadline is a number/],
    [{ concurrency: 0 }, /^concurrency is a number above 0, not 0/],
    [{ stuckAfter: 0 }, /^stuckAfter is a number above 0, not 0/],
    [{ drain: -1 }, /^drain is a number of 0 or more, not -1/],
    [{ ack: 'later' }, /^ack is 'handled' or 'stored'/],
    [{ store: memoryStore }, /^store is one that memoryStore/],
    [{ ack: 'stored', store: 'inbox.db' }, /^store is one that memoryStore/],
    [{ ack: 'stored' }, /^ack: 'stored' needs a store that keeps requests/],
    [{ ack: 'stored', store: memoryStore() }, /^ack: 'stored' needs a store that keeps requests/],
  ];
  for (const [options, message] of wrong) {
    t.throws(() => createReceiver({ secret, on: {}, ...options } as never), { name: 'TypeError', message });
  }
  for (const given of [undefined, null, 'the secret']) {
    for (const create of [createReceiver, createEdgeReceiver, createVerifyAndParse]) {
      t.throws(() => create(given as never), { name: 'TypeError', message: /^(give the options|on is an object)/ });
    }
  }
  t.throws(() => createVerifyAndParse({ secret, maxage: 1 } as never), /^maxage is not an option/);
  class Shop {
    orders = [];
    track = () => this.orders;
    log = () => {};
  }
  createReceiver({ secret, on: new Shop() });
  const groups = {
    audience: { club: { entered() {} }, other: undefined, 'VIP-Kunden_ü': { exited() {} } },
    trait: { '*': {} },
  };
  createReceiver({
    secret,
    on: { ...groups, delete() {}, error: undefined } as never,
    drain: Number.POSITIVE_INFINITY,
  });
});

t.test('keeps a wait for longer than timers can hold', async (t) => {
  const ended: string[] = [];
  const cancel = systemClock.after(Number.POSITIVE_INFINITY, () => ended.push('long'));
  t.after(cancel);
  await new Promise<void>((resolve) => systemClock.after(2, resolve));
  t.same(ended, []);
});

t.test('refuses a missing, empty or wrong secret at once', async (t) => {
  t.throws(() => createReceiver({ on: {} } as never), { name: 'TypeError', message: /^give the shared secret/ });
  const wrong: [unknown, RegExp][] = [
    ...['', '   ', ['a', ''], ['a', '\n']].map((given): [unknown, RegExp] => [given, /must not be empty/]),
    [[], /at least one/],
    [null, /^give the shared secret/],
    [7, /text or a KeyObject, not number/],
    [Buffer.from('s'), /text or a KeyObject, not object/],
  ];
  for (const [given, message] of wrong) {
    t.throws(() => createReceiver({ secret: given as string, on: {} }), { name: 'TypeError', message });
  }
});

t.test('answers 503 while a secret is undefined, and says so at start', async (t) => {
  for (const given of [undefined, [secret, undefined], () => undefined, async () => [undefined]]) {
    for (const make of [createReceiver, createEdgeReceiver]) {
      const failures: Failure[] = [];
      const warned: string[] = [];
      const hooks = make({
        secret: given,
        on: { error: (_, failure) => void failures.push(failure) },
        log: { ...silent, warn: (_, message) => warned.push(message) },
      });
      const answer = await hooks.handle(request(webhook('track')));
      t.equal(answer.status, 503);
      t.match(await answer.json(), { code: 'secret_unavailable' });
      t.match(failures, [{ stage: 'secret' }]);
      t.equal(warned.length, typeof given === 'function' ? 0 : 1);
    }
    const verifyAndParse = createVerifyAndParse({ secret: given, log: silent });
    t.match(await verifyAndParse(request(webhook('track'))), { ok: false, code: 'secret_unavailable' });
  }
});

t.test('logs a deadline that is later than the sender waits', async (t) => {
  const warned: unknown[] = [];
  const log = { ...silent, warn: (fields: object) => warned.push(fields) };
  for (const deadline of [4999, 5000, 60_000]) createReceiver({ secret, on: {}, log, deadline });
  t.same(warned, [{ deadline: 5000 }, { deadline: 60_000 }]);
});

t.test('answers tests with real users 200 without handlers, unless `test` is true', async (t) => {
  const seen: unknown[] = [];
  const seeing = (name: string) => () => void seen.push(name);
  const on: StandaloneOptions['on'] = {
    audience: { vips: { entered: seeing('entered') } },
    track: seeing('track'),
    any: seeing('any'),
    unhandled: seeing('unhandled'),
    async around(_message, _request, next) {
      seen.push('around');
      await next();
    },
  };
  const change = JSON.parse(membership('vips', 'u1', true));
  const tests = [change, webhook('track'), { ...webhook('track'), type: 'later' }].map((body) =>
    JSON.stringify({ ...body, context: { ...body.context, test: true } }),
  );
  const quiet = start({ on });
  for (const body of tests) t.match(await quiet.send(body), { status: 200, unhandled: true });
  t.match(await quiet.send(envelope([...tests, JSON.stringify(webhook('track'))])), {
    status: 200,
    unhandled: [0, 1, 2],
  });
  t.same(seen.splice(0), ['around', 'any', 'track'], 'only what is no test');
  t.equal((await quiet.send(change, {}, 'wrong')).status, 401);
  const trying = start({ on, test: true });
  for (const body of tests) t.equal((await trying.send(body)).status, 200);
  t.same(seen, ['around', 'any', 'entered', 'around', 'any', 'track', 'around', 'unhandled']);
});
