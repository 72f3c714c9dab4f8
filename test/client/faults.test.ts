import { fork } from 'node:child_process';
import { once } from 'node:events';
import t from 'tap';
import { Client, type ClientOptions, type Loss } from '../../src/client/index.ts';
import { HttpTransport } from '../../src/client/node/transport.ts';
import { answering, ENDLESS, endlessly } from '../deliver/helpers/raw-answers.ts';
import { collectGarbage } from '../helpers/collect-garbage.ts';
import { ManualClock } from './manual-clock.ts';
import { deadEndpoint, service, success } from './service.ts';

/** A client that keeps its losses, on a clock that the test moves. */
function watched(endpoint: string, options: ClientOptions = {}) {
  const clock = new ManualClock();
  const losses: Loss[] = [];
  const client = new Client('KEY', { endpoint, clock, flushAt: 1, onLoss: (loss) => losses.push(loss), ...options });
  const track = (...events: (string | number)[]) => events.map((e) => client.track({ userId: 'u', event: String(e) }));
  const giveUp = () => {
    const closed = client.close({ timeout: 0 });
    clock.advance(0);
    return closed;
  };
  return { client, clock, losses, track, giveUp };
}

function bytesHeld(): number {
  collectGarbage();
  return process.memoryUsage().arrayBuffers;
}

/** Whether a timer is one of a back-off, not a step of a request timeout or of a waiting caller, nor the gathering. */
const backoff = (ms: number) => ![3_750, 2_500, 10, 0].includes(ms);

t.test('bounds the queue, reports every drop and closes in time while the service is dead', async (t) => {
  const { client, clock, losses, track } = watched(await deadEndpoint(), { maxQueueCount: 100 });
  t.equal(track(...Array(150).keys()).filter(Boolean).length, 100);
  t.equal(client.queued, 100);
  t.equal(losses.length, 50);
  t.match(losses[0], { outcome: 'dropped', reason: 'queue_full', count: 1, messages: [{ event: '100' }] });
  await clock.timer(backoff);
  const closed = client.close({ timeout: 8_000 });
  clock.advance(8_000);
  t.same(await closed, { sent: 0, failed: 0, dropped: 150 });
  const late = losses.slice(50);
  t.ok(late.every(({ outcome, reason }) => outcome === 'dropped' && reason === 'deadline'));
  t.same(
    late.flatMap(({ messages }) => messages.map((m) => m['event'])),
    [...Array(100).keys()].map(String),
  );
});

t.test('bounds the queue in bytes while the service is dead', async (t) => {
  const { client, losses, track, giveUp } = watched(await deadEndpoint(), { maxQueueBytes: 2_000_000, flushAt: 20 });
  const before = bytesHeld();
  track(...Array(50_000).keys());
  const held = bytesHeld() - before;
  t.equal(client.queued + losses.length, 50_000);
  t.ok(losses.length > 10_000, 'the limit was reached');
  t.ok(held < 4_500_000, `${held} bytes held`);
  await giveUp();
});

t.test('does not grow the queue by repeated flushes during an outage', async (t) => {
  const { client, track, giveUp } = watched(await deadEndpoint(), { flushAt: 20 });
  const before = bytesHeld();
  for (let i = 0; i < 2_000; i++) {
    track(i);
    void client.flush({ timeout: 1 });
  }
  t.equal(client.queued, 2_000);
  t.ok(bytesHeld() - before < 2_000_000);
  await giveUp();
});

t.test('sends every message once to a service that takes 12 s to answer', async (t) => {
  const { endpoint, request, requests } = await service(t, () => {});
  const { client, clock, track } = watched(endpoint);
  track('slow');
  const held = await request(0);
  clock.advance(12_000);
  held.reply(200, success);
  t.same(await client.close(), { sent: 1, failed: 0, dropped: 0 });
  t.equal(requests.length, 1);
});

t.test('retries after requestTimeout with the same messages if the service never answers', async (t) => {
  const { endpoint, request, requests } = await service(t, (r, n) => n > 0 && r.reply(200, success));
  const { client, clock, track } = watched(endpoint);
  track('a');
  await request(0);
  clock.advance(30_000);
  clock.advance(await clock.timer(backoff));
  t.same(await client.flush(), { sent: 1, failed: 0, dropped: 0 });
  t.equal(requests.length, 2);
  t.same(requests[1]?.batch, requests[0]?.batch);
  await client.close();
});

t.test('keeps order and ids while the service flaps', async (t) => {
  const { endpoint, requests } = await service(t, (r, n) => {
    if (n % 3 === 0) r.reply(503);
    else if (n % 3 === 1) r.reset();
    else r.reply(200, success);
  });
  const { client, clock, track, losses } = watched(endpoint);
  for (const wave of [0, 1, 2, 3]) {
    track(`${wave}a`, `${wave}b`);
    const flushed = client.flush();
    for (const wait of [100, 200, 100, 200]) clock.advance(await clock.timer((ms) => backoff(ms) && ms <= wait));
    t.same(await flushed, { sent: 2, failed: 0, dropped: 0 });
  }
  await client.close();
  const accepted = requests.filter((_, n) => n % 3 === 2).flatMap(({ batch }) => batch);
  t.same(
    accepted.map((m) => m['event']),
    ['0a', '0b', '1a', '1b', '2a', '2b', '3a', '3b'],
  );
  t.equal(new Set(requests.flatMap(({ batch }) => batch.map((m) => m['messageId']))).size, 8);
  t.same(losses, []);
});

t.test('doubles the wait with every failure, with jitter, up to 30 s', async (t) => {
  const { endpoint } = await service(t, (r) => r.reply(500));
  const { clock, track, giveUp } = watched(endpoint);
  track('a');
  const waits: number[] = [];
  for (let i = 0; i < 10; i++) {
    const wait = await clock.timer(backoff);
    waits.push(wait);
    clock.advance(wait);
  }
  // Half of each, since all random numbers of the clock are 0.5.
  t.same(waits, [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 15_000, 15_000]);
  await giveUp();
});

for (const status of [400, 401, 403, 404, 413, 301, 308]) {
  t.test(`fails a batch answered with ${status} at once, reports it and sends the next one`, async (t) => {
    const error = { code: 'some_code', message: 'because' };
    const { endpoint, requests } = await service(t, (r, n) =>
      n === 0 ? r.reply(status, error, { location: '/elsewhere' }) : r.reply(200, success),
    );
    const { client, track, losses } = watched(endpoint);
    track('bad', 'good');
    t.same(await client.close(), { sent: 1, failed: 1, dropped: 0 });
    t.equal(requests.length, 2);
    t.match(losses, [
      { outcome: 'failed', reason: 'refused', count: 1, status, code: 'some_code', messages: [{ event: 'bad' }] },
    ]);
    t.match(losses[0]?.message, /because/);
  });
}

for (const status of [408, 425, 429, 500, 502, 503, 504]) {
  t.test(`retries a batch answered with ${status}`, async (t) => {
    const { endpoint, requests } = await service(t, (r, n) => r.reply(n === 0 ? status : 200, success));
    const { client, clock, track, losses } = watched(endpoint);
    track('a');
    clock.advance(await clock.timer(backoff));
    t.same(await client.close(), { sent: 1, failed: 0, dropped: 0 });
    t.same(requests[1]?.batch, requests[0]?.batch);
    t.same(losses, []);
  });
}

t.test('obeys Retry-After in seconds or as a date, up to 5 minutes, also in a flush', async (t) => {
  let header = '';
  const { endpoint, request } = await service(t, (r, n) =>
    n % 2 === 0 ? r.reply(429, {}, { 'retry-after': header }) : r.reply(200, success),
  );
  const { client, clock, track } = watched(endpoint);
  const cases = [
    ['7', 7_000],
    [new Date(clock.now() + 60_000).toUTCString(), 52_000],
    ['86400', 300_000],
  ] as const;
  for (const [i, [value, least]] of cases.entries()) {
    header = value;
    track(i);
    const wait = await clock.timer((ms) => backoff(ms) && ms >= least);
    t.ok(wait <= least + 1_000, `${wait} ms for ${value}`);
    const allowed = clock.now() + wait;
    const flushed = client.flush({ timeout: 1_000_000 });
    await new Promise(setImmediate);
    clock.advance(wait);
    const { body } = await request(2 * i + 1);
    t.equal(body['sentAt'], new Date(allowed).toISOString());
    t.match(await flushed, { sent: 1 });
  }
  await client.close();
});

t.test('flushes without waiting for the end of a back-off', async (t) => {
  const { endpoint } = await service(t, (r, n) => r.reply(n < 6 ? 500 : 200, success));
  const { client, clock, track } = watched(endpoint);
  track('a');
  for (const wait of [100, 200, 400, 800, 1600]) {
    await clock.timer((ms) => ms === wait);
    clock.advance(wait);
  }
  await clock.timer((ms) => ms === 3_200);
  t.same(await client.flush(), { sent: 1, failed: 0, dropped: 0 });
  await client.close();
});

t.test('fails a batch after retryFor without success, and sends the next one', async (t) => {
  const { endpoint, request } = await service(t, (r) => r.reply(r.batch[0]?.['event'] === 'a' ? 503 : 200, success));
  const { client, clock, track, losses } = watched(endpoint, { retryFor: 1_000 });
  track('a', 'b');
  for (const wait of [100, 200, 400]) {
    await clock.timer((ms) => ms === wait);
    clock.advance(wait);
  }
  clock.advance(await clock.timer((ms) => ms === 10));
  t.match((await request(4)).batch, [{ event: 'b' }]);
  t.same(await client.close(), { sent: 1, failed: 1, dropped: 0 });
  t.match(losses, [{ outcome: 'failed', reason: 'expired', status: 503, messages: [{ event: 'a' }] }]);
});

t.test('counts messages that the service rejects as failed and reports each with its code', async (t) => {
  const { endpoint } = await service(t, (r) =>
    r.reply(200, {
      success: true,
      rejected: [
        { index: 1, messageId: r.batch[1]?.['messageId'], code: 'event_not_string', message: 'event must be a string' },
        { index: 1, messageId: 'said twice', code: 'event_not_string', message: 'event must be a string' },
        { index: 3, code: 'too_large', message: 'too large' },
        { index: 99, code: 'beyond', message: 'no such message' },
        null,
      ],
    }),
  );
  const { client, track, losses } = watched(endpoint, { flushAt: 5 });
  track(0, 1, 2, 3, 4);
  t.same(await client.close(), { sent: 3, failed: 2, dropped: 0 });
  t.match(losses, [
    { outcome: 'failed', reason: 'rejected', count: 1, code: 'event_not_string', messages: [{ event: '1' }] },
    { outcome: 'failed', reason: 'rejected', count: 1, code: 'too_large', messages: [{ event: '3' }] },
  ]);
  t.equal(losses.length, 2);
});

t.test('does not send twice if the connection breaks after the status', async (t) => {
  const { endpoint, requests } = await service(t, (r, n) => (n === 0 ? r.cut(200) : r.reply(200, success)));
  const { client, track } = watched(endpoint);
  track('a');
  t.same(await client.flush(), { sent: 1, failed: 0, dropped: 0 });
  track('b');
  t.same(await client.close(), { sent: 1, failed: 0, dropped: 0 });
  t.equal(requests.length, 2);
});

t.test('takes the status of an answer whose body never ends, once requestTimeout is over', async (t) => {
  const { endpoint, requests } = await service(t, (r, n) => (n === 0 ? r.stall(200) : r.reply(200, success)));
  const client = new Client('KEY', { endpoint, flushAt: 1, requestTimeout: 100 });
  client.track({ userId: 'u', event: 'a' });
  client.track({ userId: 'u', event: 'b' });
  t.same(await client.close(), { sent: 2, failed: 0, dropped: 0 });
  t.equal(requests.length, 2);
});

t.test('ignores an answer body that is not JSON, or endless', async (t) => {
  const { endpoint, requests } = await service(t, (r, n) => r.reply(200, n === 0 ? 'ok' : 'x'.repeat(5_000_000)));
  const { client, track } = watched(endpoint);
  track('a', 'b');
  t.same(await client.close(), { sent: 2, failed: 0, dropped: 0 });
  t.equal(requests.length, 2);
});

for (const [name, [status, first, more]] of Object.entries(ENDLESS)) {
  t.test(`cuts off endless answers before requestTimeout: ${name}`, async (t) => {
    const { url } = await answering(t, () => endlessly(first, more));
    const endpoint = new URL(`http://${url}`);
    const transport = new HttpTransport('KEY', { endpoint, clock: new ManualClock(), requestTimeout: 1_000 });
    t.teardown(() => transport.close());
    t.match(await transport.post(Buffer.from('{}')), status === null ? { error: Error } : { status });
  });
}

t.test('does not send twice after the event loop was blocked for seconds', async (t) => {
  // Its own process: it must answer while this one is blocked.
  const sink = fork(new URL('./fixtures/sink.ts', import.meta.url));
  t.teardown(() => sink.kill());
  const [{ endpoint }] = (await once(sink, 'message')) as [{ endpoint: string }];
  const client = new Client('KEY', { endpoint, flushAt: 1, requestTimeout: 800, closeTimeout: 800 });
  for (const event of ['a', 'b', 'c']) {
    client.track({ userId: 'u', event });
    const flushed = client.flush();
    block(1_500);
    t.same(await flushed, { sent: 1, failed: 0, dropped: 0 });
  }
  t.same(await client.close(), { sent: 0, failed: 0, dropped: 0 });
  sink.send('events');
  const [{ events }] = (await once(sink, 'message')) as [{ events: string[] }];
  t.same(events, ['a', 'b', 'c']);
});

/** Blocks the loop, as a long synchronous computation does. */
function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

t.test('survives an onLoss that throws', async (t) => {
  const { endpoint } = await service(t, (r, n) => r.reply(n === 0 ? 400 : 200, success));
  const warned = once(process, 'warning');
  const onLoss = () => {
    throw new Error('in onLoss');
  };
  const { client, track } = watched(endpoint, { onLoss });
  track('a', 'b');
  t.same(await client.close(), { sent: 1, failed: 1, dropped: 0 });
  t.match((await warned)[0], { name: 'RollcallWarning', message: /in onLoss/ });
});

t.test('survives functions of the host that reject later', async (t) => {
  const warned: string[] = [];
  const hear = ({ message }: Error) => void warned.push(message);
  process.on('warning', hear);
  t.teardown(() => process.off('warning', hear));
  const fail = (what: string) => async () => {
    throw new Error(`in ${what}`);
  };
  const { endpoint } = await service(t, (r, n) => (n === 0 ? r.reset() : r.reply(400, success)));
  const hooks = { onLoss: fail('onLoss'), onRetry: fail('onRetry') };
  const client = new Client('KEY', { endpoint, ...hooks });
  client.track({ userId: 'u', event: 'a' });
  t.same(await client.close(), { sent: 0, failed: 1, dropped: 0 });
  const other = new Client('KEY', { endpoint, onLoss: () => Promise.reject(Object.create(null)) });
  other.track({ userId: 'u', event: 'a' });
  await other.close();
  await new Promise(setImmediate);
  for (const what of ['onLoss', 'onRetry']) {
    t.ok(
      warned.some((text) => text.includes(`threw: Error: in ${what}`)),
      what,
    );
  }
  t.ok(warned.some((text) => text.includes('threw: something that cannot be turned into text')));
});

t.test('warns of the first loss for each reason if there is no onLoss', async (t) => {
  const { endpoint } = await service(t, (r) => r.reply(401, { code: 'unknown_source', message: 'no such key' }));
  const warnings: Error[] = [];
  const listen = (warning: Error) => warnings.push(warning);
  process.on('warning', listen);
  t.teardown(() => process.off('warning', listen));
  const client = new Client('KEY', { endpoint, flushAt: 1 });
  for (const event of ['a', 'b', 'c']) {
    client.track({ userId: 'u', event });
    await client.flush();
  }
  t.same(await client.close(), { sent: 0, failed: 0, dropped: 0 });
  client.track({ userId: 'u', event: 'late' });
  await new Promise(setImmediate);
  t.match(
    warnings.map(({ message }) => message),
    [/401: no such key/, /closed/],
  );
  t.equal(warnings.length, 2);
});
