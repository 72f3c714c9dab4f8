import { on } from 'node:events';
import t from 'tap';
import { Analytics, ClientError, type Context, DeliveryError, type Loss } from '../../src/client/index.ts';
import { ManualClock } from './manual-clock.ts';
import { deadEndpoint, service, success } from './service.ts';

/** The arguments of a callback. */
type Called = [error: unknown, context: Context | undefined];

const collect = () => {
  const calls: Called[] = [];
  return { calls, callback: (error?: unknown, context?: Context) => void calls.push([error, context]) };
};

t.test('every call goes out as that library sends it', async (t) => {
  const { endpoint, requests } = await service(t);
  const analytics = new Analytics({ writeKey: 'KEY', host: endpoint, clock: new ManualClock() });
  analytics.identify({ userId: 'u1', previousId: 'a1', traits: { plan: 'pro' } });
  analytics.track({ anonymousId: 'a1', event: 'Added', properties: { productId: '1' }, integrations: { All: false } });
  analytics.page({ userId: 'u1', category: 'Docs', name: 'Start', properties: { url: '/' } });
  analytics.screen({ userId: 'u1', name: 'Main', category: 'Docs' });
  analytics.group({ userId: 'u1', groupId: 'g1', traits: { name: 'Initech' } });
  analytics.alias({ userId: 'u1', previousId: 'a1' });
  await analytics.closeAndFlush();
  t.match(requests[0]?.batch, [
    { type: 'identify', userId: 'u1', previousId: 'a1', traits: { plan: 'pro' } },
    { type: 'track', anonymousId: 'a1', event: 'Added', properties: { productId: '1' }, integrations: { All: false } },
    { type: 'page', category: 'Docs', name: 'Start', properties: { url: '/', category: 'Docs' } },
    { type: 'screen', name: 'Main', category: 'Docs' },
    { type: 'group', groupId: 'g1', traits: { name: 'Initech' } },
    { type: 'alias', previousId: 'a1' },
  ]);
  t.match(requests[0], { path: '/v1/batch', headers: { authorization: `Basic ${btoa('KEY:')}` } });
});

t.test('callbacks and listeners hear of each message by itself', async (t) => {
  const { endpoint } = await service(t, (r) =>
    r.reply(200, { success: true, rejected: [{ index: 1, code: 'event_not_string', message: 'no' }] }),
  );
  const analytics = new Analytics({ writeKey: 'KEY', host: endpoint });
  const { calls, callback } = collect();
  const heard: unknown[] = [];
  analytics.on('track', (context) => heard.push(['track', context.event['event'], context.failedDelivery()]));
  analytics.on('identify', ({ id, event }) => heard.push(['identify', id === event.messageId]));
  analytics.on('error', ({ code, reason, ctx }) => heard.push([code, (reason as Error).message, ctx?.event['event']]));
  analytics.once('drained', () => heard.push('drained'));
  analytics.track({ userId: 'u', event: 'a' }, callback);
  analytics.track({ userId: 'u', event: 'b' }, callback);
  analytics.track({ userId: 'u', event: 'c' });
  analytics.identify({ userId: 'u' }, callback);
  await analytics.flush();
  t.same(heard, [
    ['track', 'a', undefined],
    ['delivery_failure', 'no', 'b'],
    ['track', 'c', undefined],
    ['identify', true],
    'drained',
  ]);
  t.same(
    calls.map(([error, context]) => [error === undefined, context?.event.type]),
    [
      [true, 'track'],
      [false, 'track'],
      [true, 'identify'],
    ],
  );
  const [, [error, context] = []] = calls;
  t.ok(error instanceof DeliveryError);
  t.match(error, { loss: { reason: 'rejected', code: 'event_not_string' } });
  t.equal(context?.failedDelivery()?.reason, error);
  await analytics.closeAndFlush();
});

t.test('order of callbacks and messages holds over many batches, some refused', async (t) => {
  const { endpoint } = await service(t, (r, n) => r.reply(n % 2 === 0 ? 200 : 400, success));
  const analytics = new Analytics({ writeKey: 'KEY', host: endpoint, flushAt: 1 });
  const seen: [string, boolean][] = [];
  analytics.on('error', () => {});
  for (let i = 0; i < 60; i++) {
    analytics.track({ userId: 'u', event: String(i) }, (error, context) => {
      seen.push([String(context?.event['event']), error === undefined]);
    });
    if (i % 10 === 9) await analytics.flush();
  }
  await analytics.closeAndFlush();
  t.same(
    seen.map(([event]) => event),
    [...Array(60).keys()].map(String),
  );
  t.ok(seen.some(([, arrived]) => arrived) && seen.some(([, arrived]) => !arrived));
});

t.test('closeAndFlush ends in its time, and each callback hears why its message is lost', async (t) => {
  const host = await deadEndpoint();
  const clock = new ManualClock();
  const losses: Loss[] = [];
  const onLoss = (loss: Loss) => losses.push(loss);
  const analytics = new Analytics({ writeKey: 'KEY', host, clock, onLoss, onRetry: () => {}, maxQueueCount: 2 });
  const { calls, callback } = collect();
  for (const event of ['a', 'b', 'full']) analytics.track({ userId: 'u', event }, callback);
  t.equal(calls.length, 0, 'never within the call');
  const closed = analytics.closeAndFlush({ timeout: 800 });
  await clock.timer((ms) => ms === 100);
  clock.advance(800);
  await closed;
  t.same(
    calls.map(([error, context]) => [(error as DeliveryError).loss.reason, context?.event['event']]),
    [
      ['queue_full', 'full'],
      ['deadline', 'a'],
      ['deadline', 'b'],
    ],
  );
  t.equal(losses.length, 2, 'one for the full queue, one for the batch');
});

t.test('after the end a call is call_after_close, also with its callback', async (t) => {
  const { endpoint, requests } = await service(t);
  const analytics = new Analytics({ writeKey: 'KEY', host: endpoint });
  const late: unknown[] = [];
  analytics.on('call_after_close', (event) => late.push(event));
  analytics.track({ userId: 'u', event: 'a' });
  const closed = analytics.closeAndFlush();
  const { calls, callback } = collect();
  analytics.track({ userId: 'u', event: 'late' }, callback);
  await closed;
  t.match(late, [{ type: 'track', userId: 'u', event: 'late', messageId: String }]);
  t.same(calls, []);
  t.equal(requests[0]?.batch.length, 1);
});

t.test('what is missing is thrown at the call; what cannot be sent is told', async (t) => {
  const { endpoint } = await service(t);
  const analytics = new Analytics({ writeKey: 'KEY', host: endpoint });
  t.throws(() => analytics.track({ event: 'e' }), { code: 'no_user_anon_id' });
  t.throws(() => analytics.track({ userId: 'u' } as never), { code: 'event_not_defined' });
  const { calls, callback } = collect();
  const errors: unknown[] = [];
  analytics.on('error', ({ code }) => errors.push(code));
  analytics.track({ userId: 'u', event: 'e', properties: { text: 'x'.repeat(40_000) } }, callback);
  analytics.track({ userId: 'u', event: 'e', timestamp: 'soon' }, callback);
  await analytics.flush();
  t.match(
    calls.map(([error]) => error),
    [{ code: 'too_large' }, { code: 'invalid_timestamp' }],
  );
  t.same(errors, ['delivery_failure', 'delivery_failure']);
  await analytics.closeAndFlush();
});

t.test('http_request and http_response show what is sent, without the key', async (t) => {
  const { endpoint } = await service(t);
  const analytics = new Analytics({ writeKey: 'SECRET-KEY', host: endpoint, path: '/in/batch' });
  const seen: Record<string, unknown>[] = [];
  analytics.on('http_request', (request) => seen.push(request));
  analytics.on('http_response', (response) => seen.push(response));
  analytics.track({ userId: 'u', event: 'é' });
  await analytics.closeAndFlush();
  t.match(seen, [
    { url: `${endpoint}/in/batch`, method: 'POST', headers: { 'content-type': 'application/json' } },
    { url: `${endpoint}/in/batch`, status: 200, body: '{"success":true}' },
  ]);
  t.match(JSON.parse(String(seen[0]?.['body'])), { batch: [{ event: 'é' }], sentAt: String });
  t.notMatch(JSON.stringify(seen), 'SECRET-KEY');
});

t.test('options of that library', async (t) => {
  t.test('flushAt, maxEventsInBatch and the 15 of the default', async (t) => {
    for (const [options, count] of [
      [{ flushAt: 3 }, 3],
      [{ flushAt: 0 }, 1],
      [{ maxEventsInBatch: 4 }, 4],
      [{}, 15],
    ] as const) {
      const { endpoint, request } = await service(t);
      const analytics = new Analytics({ writeKey: 'KEY', host: endpoint, clock: new ManualClock(), ...options });
      for (let i = 0; i < count; i++) analytics.track({ userId: 'u', event: 'e' });
      t.equal((await request(0)).batch.length, count);
      await analytics.closeAndFlush();
    }
  });

  t.test('flushInterval', async (t) => {
    for (const [options, wait] of [
      [{ flushInterval: 700 }, 700],
      [{}, 10_000],
    ] as const) {
      const { endpoint, request } = await service(t);
      const clock = new ManualClock();
      const analytics = new Analytics({ writeKey: 'KEY', host: endpoint, clock, ...options });
      analytics.track({ userId: 'u', event: 'e' });
      t.equal(await clock.timer(() => true), wait);
      clock.advance(wait);
      await request(0);
      await analytics.closeAndFlush();
    }
  });

  t.test('maxRetries', async (t) => {
    const { endpoint, requests } = await service(t, (r) => r.reply(500));
    const clock = new ManualClock();
    const analytics = new Analytics({ writeKey: 'KEY', host: endpoint, clock, maxRetries: 1, onRetry: () => {} });
    const { calls, callback } = collect();
    analytics.track({ userId: 'u', event: 'e' }, callback);
    const flushed = analytics.flush();
    clock.advance(await clock.timer((ms) => ms === 100));
    await flushed;
    t.equal(requests.length, 2);
    t.match(calls, [[{ loss: { reason: 'expired', status: 500 } }]]);
  });

  t.test('maxTotalBackoffDuration, in seconds', async (t) => {
    const { endpoint, requests } = await service(t, (r) => r.reply(500));
    const clock = new ManualClock();
    const options = { clock, maxTotalBackoffDuration: 0.15, onRetry: () => {}, onLoss: () => {} };
    const analytics = new Analytics({ writeKey: 'KEY', host: endpoint, ...options });
    analytics.track({ userId: 'u', event: 'e' });
    const flushed = analytics.flush();
    clock.advance(await clock.timer((ms) => ms === 100));
    await flushed;
    t.equal(requests.length, 2);
  });

  t.test('httpRequestTimeout', async (t) => {
    for (const [options, wait] of [
      [{ httpRequestTimeout: 400 }, 400],
      [{}, 10_000],
    ] as const) {
      const { endpoint, request } = await service(t, (r, n) => n > 0 && r.reply(200, success));
      const clock = new ManualClock();
      const analytics = new Analytics({ writeKey: 'KEY', host: endpoint, clock, flushAt: 1, onRetry() {}, ...options });
      analytics.track({ userId: 'u', event: 'e' });
      await request(0);
      clock.advance(wait);
      clock.advance(await clock.timer((ms) => ms === 100));
      await request(1);
      await analytics.closeAndFlush();
    }
  });

  t.test('disable makes no request, and all counts as sent', async (t) => {
    const { endpoint, requests } = await service(t);
    const analytics = new Analytics({ writeKey: 'KEY', host: endpoint, disable: true });
    const { calls, callback } = collect();
    const tracked: unknown[] = [];
    analytics.on('track', (context) => tracked.push(context));
    analytics.on('http_request', () => t.fail('no request'));
    analytics.track({ userId: 'u', event: 'e' }, callback);
    await analytics.closeAndFlush();
    t.match(calls, [[undefined]]);
    t.equal(tracked.length, 1);
    t.equal(requests.length, 0);
  });

  t.test('httpClient as a fetch, and as an object', async (t) => {
    const { endpoint, requests } = await service(t);
    const made: Record<string, unknown>[] = [];
    const makeRequest = async ({ url, httpRequestTimeout, ...init }: Record<string, unknown>) => {
      made.push({ url, httpRequestTimeout });
      return fetch(url as string, init as RequestInit);
    };
    for (const httpClient of [fetch, { makeRequest: makeRequest as never }]) {
      const analytics = new Analytics({ writeKey: 'KEY', host: endpoint, httpClient });
      const { calls, callback } = collect();
      analytics.track({ userId: 'u', event: 'e' }, callback);
      await analytics.closeAndFlush();
      t.match(calls, [[undefined]]);
    }
    t.same(made, [{ url: `${endpoint}/v1/batch`, httpRequestTimeout: 10_000 }]);
    for (const { headers } of requests) t.equal(headers.authorization, `Basic ${btoa('KEY:')}`);
  });

  t.test('what has no effect is said, and what cannot be had refused', async (t) => {
    const warned: string[] = [];
    const listen = (warning: Error) => warned.push(warning.message);
    process.on('warning', listen);
    t.teardown(() => process.off('warning', listen));
    t.throws(() => new Analytics({ writeKey: '' }), { code: 'bad_configuration', field: 'writeKey' });
    const wrong = {
      host: 'nope',
      flushInterval: 'x',
      httpRequestTimeout: 0,
      maxTotalBackoffDuration: -1,
      httpClient: {},
    };
    for (const [field, value] of Object.entries(wrong)) {
      const settings = { writeKey: 'K', [field]: value } as never;
      t.throws(() => new Analytics(settings), {
        code: 'bad_configuration',
        field,
        message: new RegExp(`^${field} must`),
      });
    }
    new Analytics({ writeKey: 'K', flushInterval: 0 });
    const month = 30 * 24 * 60 * 60;
    new Analytics({ writeKey: 'K', maxTotalBackoffDuration: month, flushInterval: 2 ** 31 - 1 });
    const oauthSettings = { clientId: 'x' } as never;
    t.throws(() => new Analytics({ writeKey: 'K', oauthSettings }), {
      code: 'bad_configuration',
      field: 'oauthSettings',
    });
    new Analytics({ writeKey: 'K', maxRateLimitDuration: 1 });
    await new Promise(setImmediate);
    t.match(warned, [/maxRateLimitDuration has no effect/]);
  });
});

t.test('plugins see and change messages before they are queued, in turn', async (t) => {
  const { endpoint, requests } = await service(t);
  const analytics = new Analytics({ writeKey: 'KEY', host: endpoint });
  const registered: string[][] = [];
  analytics.on('register', (names) => registered.push(names));
  analytics.on('deregister', (names) => registered.push(names));
  await analytics.ready;
  const loaded = { isLoaded: () => true, load: async () => {} };
  await analytics.register(
    {
      ...{ name: 'later', type: 'enrichment', ...loaded },
      track: async (context) => {
        await new Promise(setImmediate);
        context.updateEvent('properties.order', `${context.event['properties'] && 'before'}, later`);
        return context;
      },
    },
    {
      ...{ name: 'first', type: 'before', ...loaded },
      track: (context) => {
        if (context.event['event'] === 'bad') throw new Error('not this one');
        context.updateEvent('properties.__proto__.polluted', true);
        context.updateEvent('context.app', 'shop');
        return context;
      },
    },
  );
  const { calls, callback } = collect();
  analytics.on('error', ({ code, reason }) => registered.push([code, String(reason)]));
  analytics.track({ userId: 'u', event: 'bad' }, callback);
  analytics.track({ userId: 'u', event: 'good', properties: {} }, callback);
  await analytics.flush();
  t.match(requests[0]?.batch, [{ event: 'good', properties: { order: 'before, later' }, context: { app: 'shop' } }]);
  t.equal(requests[0]?.batch.length, 1);
  t.match(
    calls.map(([error]) => error),
    [{ message: 'not this one' }, undefined],
  );
  await analytics.deregister('later');
  analytics.track({ userId: 'u', event: 'plain' });
  await analytics.closeAndFlush();
  t.equal(requests[1]?.batch[0]?.['properties'], undefined);
  t.same(registered, [['Rollcall'], ['later', 'first'], ['unknown', 'Error: not this one'], ['later']]);
  const destination = { ...loaded, name: 'elsewhere', type: 'destination' as never };
  await t.rejects(analytics.register(destination), { code: 'bad_configuration', field: 'plugins' });
  t.equal(({} as { polluted?: boolean }).polluted, undefined);
});

t.test('a plugin counts for each call after its register, which nobody has waited for', async (t) => {
  const { endpoint, requests } = await service(t);
  const analytics = new Analytics({ writeKey: 'KEY', host: endpoint, flushAt: 1 });
  let finish = () => {};
  const registered = analytics.register({
    ...{ name: 'scrub', type: 'before', isLoaded: () => true },
    load: () =>
      new Promise<void>((resolve) => {
        finish = resolve;
      }),
    identify: (context) => {
      context.updateEvent('traits.email', '***');
      return context;
    },
  });
  analytics.identify({ userId: 'u', traits: { email: 'ada@example.com' } });
  await new Promise(setImmediate);
  finish();
  await registered;
  analytics.identify({ userId: 'v', traits: { email: 'bob@example.com' } });
  await analytics.closeAndFlush();
  t.match(
    requests.flatMap(({ batch }) => batch),
    [
      { userId: 'u', traits: { email: '***' } },
      { userId: 'v', traits: { email: '***' } },
    ],
  );
});

t.test('a plugin that can not be loaded holds no message back', async (t) => {
  const { endpoint, requests } = await service(t);
  const analytics = new Analytics({ writeKey: 'KEY', host: endpoint });
  const load = () => Promise.reject(new Error('no network'));
  const registered = analytics.register({ name: 'geo', type: 'enrichment', isLoaded: () => false, load });
  analytics.track({ userId: 'u', event: 'a' });
  await t.rejects(registered, { message: 'no network' });
  analytics.track({ userId: 'u', event: 'b' });
  await analytics.closeAndFlush();
  t.match(requests[0]?.batch.map(({ event }) => event).toSorted(), ['a', 'b']);
});

t.test('a plugin that fails where nobody waits for it is told, and does not end the process', async (t) => {
  const { endpoint, requests } = await service(t);
  const analytics = new Analytics({ writeKey: 'KEY', host: endpoint });
  const warned = async (text: string) => {
    for await (const [{ message }] of on(process, 'warning')) if (message.includes(text)) return;
  };
  const fail = () => Promise.reject(new Error('no network'));
  const geo = { name: 'geo', type: 'enrichment', isLoaded: () => true, load: fail } as const;
  let told = warned('register of geo failed: Error: no network');
  analytics.register(geo);
  await told;
  await analytics.register({ ...geo, load: async () => {}, unload: fail });
  told = warned('deregister of geo failed: Error: no network');
  analytics.deregister('geo');
  await told;
  analytics.track({ userId: 'u', event: 'a' });
  await analytics.closeAndFlush();
  t.match(requests[0]?.batch, [{ event: 'a' }]);
});

t.test('a plugin that leaves keeps no message that it still has', async (t) => {
  const { endpoint, requests } = await service(t);
  const analytics = new Analytics({ writeKey: 'KEY', host: endpoint });
  await analytics.register({
    ...{ name: 'slow', type: 'enrichment', isLoaded: () => true, load: async () => {} },
    track: async (context) => {
      await new Promise(setImmediate);
      return context;
    },
  });
  analytics.track({ userId: 'u', event: 'a' });
  await analytics.deregister('slow');
  await analytics.closeAndFlush();
  t.match(requests[0]?.batch, [{ event: 'a' }]);
});

t.test('a before stops a message by returning nothing, or by cancel, as in that library', async (t) => {
  const { endpoint, requests } = await service(t);
  const analytics = new Analytics({ writeKey: 'KEY', host: endpoint });
  await analytics.register({
    ...{ name: 'employees', type: 'before', isLoaded: () => true, load: async () => {} },
    track: (context) => {
      context.log('debug', 'looking at it', { event: context.event });
      if (context.event['userId'] === 'cancelled') context.cancel();
      return context.event['userId'] === 'employee' ? undefined : context;
    },
  });
  const { calls, callback } = collect();
  for (const userId of ['employee', 'cancelled', 'customer']) analytics.track({ userId, event: 'e' }, callback);
  analytics.identify({ userId: 'employee' });
  await analytics.closeAndFlush();
  t.same(Object.fromEntries(calls.map(([error, context]) => [context?.event['userId'], (error as Error)?.message])), {
    employee: 'the plugin employees stopped the message',
    cancelled: 'a plugin stopped the message',
    customer: undefined,
  });
  t.match(requests[0]?.batch.map(({ type, userId }) => [type, userId]).toSorted(), [
    ['identify', 'employee'],
    ['track', 'customer'],
  ]);
});

t.test('with plugins too, a wrong call throws at once', async (t) => {
  const { endpoint, requests } = await service(t);
  const analytics = new Analytics({ writeKey: 'KEY', host: endpoint });
  await analytics.register({ name: 'any', type: 'before', isLoaded: () => true, load: async () => {} });
  t.throws(() => analytics.track({ event: 'x' }), { code: 'no_user_anon_id' });
  t.throws(() => analytics.track({ userId: 'u' } as never), { code: 'event_not_defined' });
  t.throws(() => analytics.track(undefined as never), TypeError);
  const { calls, callback } = collect();
  analytics.track({ userId: 'u', event: 'x', properties: { n: 1n } }, callback);
  await analytics.closeAndFlush();
  t.match(calls, [[{ code: 'invalid_message' }]]);
  t.equal(requests.length, 0);
});

t.test('a message has the time of its call, which plugins see', async (t) => {
  const { endpoint, requests } = await service(t);
  const analytics = new Analytics({ writeKey: 'KEY', host: endpoint });
  const seen: unknown[] = [];
  await analytics.register({
    ...{ name: 'slow', type: 'before', isLoaded: () => true, load: async () => {} },
    track: async (context) => {
      seen.push(context.event['timestamp']);
      const begun = Date.now();
      while (Date.now() === begun) await new Promise(setImmediate);
      return context;
    },
  });
  analytics.track({ userId: 'u', event: 'x' });
  await analytics.closeAndFlush();
  t.ok(seen[0] instanceof Date);
  t.same([requests[0]?.batch[0]?.['timestamp']], JSON.parse(JSON.stringify(seen)));
});

t.test('an enrichment that fails costs no message, and is told once', async (t) => {
  const warned: string[] = [];
  const hear = ({ message }: Error) => void warned.push(message);
  process.on('warning', hear);
  t.teardown(() => process.off('warning', hear));
  const { endpoint, requests } = await service(t);
  const analytics = new Analytics({ writeKey: 'KEY', host: endpoint });
  await analytics.register({
    ...{ name: 'geo', type: 'enrichment', isLoaded: () => true, load: async () => {} },
    track: () => Promise.reject(new Error('no data')),
  });
  analytics.track({ userId: 'u', event: 'a' });
  analytics.track({ userId: 'u', event: 'b' });
  await analytics.closeAndFlush();
  t.match(requests[0]?.batch, [{ event: 'a' }, { event: 'b' }]);
  await new Promise(setImmediate);
  t.same(
    warned.filter((text) => text.includes('geo')),
    ['the plugin geo failed, and messages go out without it: Error: no data'],
  );
});

t.test('a plugin that never ends keeps neither a flush nor other messages', async (t) => {
  const warned: string[] = [];
  const hear = ({ message }: Error) => void warned.push(message);
  process.on('warning', hear);
  t.teardown(() => process.off('warning', hear));
  const { endpoint, requests } = await service(t);
  const clock = new ManualClock();
  const analytics = new Analytics({ writeKey: 'KEY', host: endpoint, clock });
  await analytics.register({
    ...{ name: 'stuck', type: 'before', isLoaded: () => true, load: async () => {} },
    track: (context) => (context.event['event'] === 'a' ? new Promise(() => {}) : context),
  });
  analytics.track({ userId: 'u', event: 'a' });
  analytics.identify({ userId: 'u' });
  analytics.track({ userId: 'u', event: 'b' });
  const arrived: string[] = [];
  for (const kind of ['identify', 'track'] as const) analytics.on(kind, () => arrived.push(kind));
  let hasEnded = false;
  const flushed = analytics.closeAndFlush().then(() => {
    hasEnded = true;
  });
  while (!hasEnded) {
    clock.advance(arrived.length < 2 ? 1 : 10_000);
    await new Promise(setImmediate);
  }
  await flushed;
  t.match(
    requests.flatMap(({ batch }) => batch),
    [{ type: 'identify' }, { event: 'b' }],
  );
  await new Promise(setImmediate);
  t.match(warned.at(-1), /plugins have not handed on in time are dropped: 1/);
});

t.test('callbacks and listeners that throw harm neither host nor client', async (t) => {
  const { endpoint, requests } = await service(t);
  const analytics = new Analytics({ writeKey: 'KEY', host: endpoint, flushAt: 1 });
  const bad = () => {
    throw new Error('of the host');
  };
  for (const event of ['track', 'drained', 'http_request'] as const) analytics.on(event, bad);
  analytics.track({ userId: 'u', event: 'a' }, bad);
  analytics.track({ userId: 'u', event: 'b' }, bad);
  await analytics.closeAndFlush();
  t.same(
    requests.flatMap(({ batch }) => batch.map((m) => m['event'])),
    ['a', 'b'],
  );
});

t.test('an error without a listener throws nothing, and is a process warning', async (t) => {
  const { endpoint } = await service(t, (r) => r.reply(401, { message: 'no such key' }));
  const warned = new Promise<Error>((resolve) => process.once('warning', resolve));
  const analytics = new Analytics({ writeKey: 'KEY', host: endpoint });
  const { track } = analytics;
  track({ userId: 'u', event: 'taken out of the object' });
  await analytics.closeAndFlush();
  t.match(await warned, { name: 'RollcallWarning', message: /no such key/ });
  t.ok(analytics.VERSION);
  t.throws(() => new Analytics({ writeKey: 'KEY', host: 'nonsense' }), ClientError);
});
