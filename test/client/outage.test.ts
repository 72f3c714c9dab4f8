import http from 'node:http';
import t, { type Test } from 'tap';
import { Client, type Loss, type Retry } from '../../src/client/index.ts';
import { Ledger } from '../../src/client/ledger.ts';
import { Outage } from '../../src/client/outage.ts';
import { classify } from '../../src/client/outcome.ts';
import { ManualClock } from './manual-clock.ts';
import { deadEndpoint, service, success } from './service.ts';

/** Whether a timer is one of a back-off, not a step of a request timeout or of a waiting caller, nor the gathering. */
const backoff = (ms: number) => ![3_750, 2_500, 10, 0].includes(ms);

/** Process warnings of the client from now on. */
function warnings(t: Test): { texts: string[]; next(): Promise<string> } {
  const texts: string[] = [];
  let told = () => {};
  const listen = (warning: Error) => {
    if (warning.name !== 'RollcallWarning') return;
    texts.push(warning.message);
    told();
  };
  process.on('warning', listen);
  t.teardown(() => process.off('warning', listen));
  let read = 0;
  const next = async () => {
    while (texts.length === read) await new Promise<void>((resolve) => (told = resolve));
    return texts[read++] ?? '';
  };
  return { texts, next };
}

t.test('warns at once of an endpoint without an answer, by name, without its secrets', async (t) => {
  const endpoint = await deadEndpoint();
  const { next } = warnings(t);
  const { host } = new URL(endpoint);
  const client = new Client('SECRET-KEY', { endpoint: `http://me:pass@${host}/in?token=1`, flushAt: 1 });
  client.track({ userId: 'u', event: 'a' });
  const text = await next();
  t.match(text, `http://${host}/in/v1/batch can't be reached: connect ECONNREFUSED`);
  t.match(text, /1 message waits/);
  t.notMatch(text, /pass|token|SECRET/);
  await client.close({ timeout: 0 });
});

t.test('ends each sentence of a warning with one full stop', (t) => {
  const said: string[] = [];
  const warn = (text: string) => void said.push(text);
  const message = 'The write key is unknown.';
  const outage = new Outage({ clock: new ManualClock(), endpoint: new URL('http://x'), onRetry: undefined, warn });
  outage.failed({ message }, 1, 1);
  const ledger = new Ledger(undefined, warn);
  ledger.lost({ outcome: 'failed', reason: 'refused', count: 1, message }, () => []);
  t.equal(said.length, 2);
  for (const text of said) t.match(text, /is unknown\. \w/);
  t.end();
});

t.test('repeats the warning less and less often, and warns once that the outage is over', (t) => {
  const clock = new ManualClock();
  const said: [number, string][] = [];
  const start = clock.now();
  const minutes = () => Math.round((clock.now() - start) / 60_000);
  const warn = (text: string) => said.push([minutes(), text]);
  const outage = new Outage({ clock, endpoint: new URL('http://x/v1/batch'), onRetry: undefined, warn });
  for (; minutes() < 6 * 60; clock.advance(15_000)) outage.failed({ message: 'nobody there' }, 15_000, 7);
  t.same(
    said.map(([at]) => at),
    [0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303],
  );
  t.equal(said[0]?.[1], "http://x/v1/batch can't be reached: nobody there. Retrying; 7 messages wait.");
  t.match(said[6]?.[1], 'nobody there. 253 tries in 63 min, still retrying; 7 messages wait.');
  t.match(outage.last, { message: 'nobody there' });
  outage.ended();
  outage.ended();
  t.same(said.slice(11), [[360, 'http://x/v1/batch is reached again, after 360 min.']]);
  t.equal(outage.last, undefined);
  outage.failed({ message: 'again' }, 1, 1);
  t.equal(said.length, 13, 'the next outage is said at once');
  t.end();
});

t.test('warns that the service is back', async (t) => {
  const { endpoint } = await service(t, (r, n) => (n === 0 ? r.reset() : r.reply(200, success)));
  const { next } = warnings(t);
  const clock = new ManualClock();
  const client = new Client('KEY', { endpoint, flushAt: 1, clock });
  client.track({ userId: 'u', event: 'a' });
  t.match(await next(), /can't be reached/);
  clock.advance(await clock.timer(backoff));
  t.same(await client.close(), { sent: 1, failed: 0, dropped: 0 });
  t.match(await next(), /is reached again, after 0 s/);
});

t.test('warns of a service after three bad answers in a row', async (t) => {
  const { endpoint } = await service(t, (r) => r.reply(503, { message: 'starting' }));
  const { texts, next } = warnings(t);
  const clock = new ManualClock();
  const client = new Client('KEY', { endpoint, flushAt: 1, clock });
  client.track({ userId: 'u', event: 'a' });
  for (const wait of [100, 200]) {
    await clock.timer((ms) => ms === wait);
    await new Promise(setImmediate);
    t.same(texts, []);
    clock.advance(wait);
  }
  t.match(await next(), /503: starting. 3 tries/);
  const closed = client.close({ timeout: 0 });
  clock.advance(0);
  await closed;
});

t.test('calls onRetry for every try instead of warning, even if it throws', async (t) => {
  const { endpoint } = await service(t, (r, n) => {
    if (n === 0) r.reset();
    else if (n === 1) r.reply(429, { message: 'slow down' }, { 'retry-after': '7' });
    else r.reply(200, success);
  });
  const { texts } = warnings(t);
  const clock = new ManualClock();
  const retries: Retry[] = [];
  const onRetry = (retry: Retry) => {
    retries.push(retry);
    throw new Error('in onRetry');
  };
  const client = new Client('KEY', { endpoint, flushAt: 2, clock, onRetry });
  client.track({ userId: 'u', event: 'a' });
  client.track({ userId: 'u', event: 'b' });
  clock.advance(await clock.timer((ms) => ms === 100));
  clock.advance(await clock.timer((ms) => ms === 7_000));
  t.same(await client.close(), { sent: 2, failed: 0, dropped: 0 });
  t.match(retries, [
    { message: /reset|hang up/i, tries: 1, lasted: 0, wait: 100, queued: 2, status: undefined },
    { message: /429: slow down/, status: 429, tries: 2, lasted: 100, wait: 7_000, queued: 2 },
  ]);
  t.ok(texts.every((text) => text.includes('onRetry threw')));
});

t.test('reports the last error with messages that are given up', async (t) => {
  const losses: Loss[] = [];
  const clock = new ManualClock();
  const options = { flushAt: 1, clock, maxQueueCount: 1, onLoss: (loss: Loss) => losses.push(loss), onRetry: () => {} };
  const client = new Client('KEY', { endpoint: await deadEndpoint(), ...options });
  client.track({ userId: 'u', event: 'a' });
  await clock.timer(backoff);
  client.track({ userId: 'u', event: 'b' });
  const closed = client.close({ timeout: 0 });
  clock.advance(0);
  await closed;
  t.match(losses, [
    { reason: 'queue_full', message: /the last request failed: connect ECONNREFUSED/ },
    { reason: 'deadline', message: /close\(\) ran out of time; the last request failed: connect ECONNREFUSED/ },
  ]);
  const { endpoint } = await service(t, (r) => r.reply(502));
  const other = new Client('KEY', { endpoint, ...options });
  other.track({ userId: 'u', event: 'a' });
  await clock.timer(backoff);
  const alsoClosed = other.close({ timeout: 0 });
  clock.advance(0);
  await alsoClosed;
  t.match(losses[2], { reason: 'deadline', status: 502, message: /the service answered 502/ });
});

t.test('names the causes of an error of several addresses, or of a fetch', (t) => {
  const refused = new AggregateError([new Error('connect ECONNREFUSED ::1:1'), new Error('connect ECONNREFUSED 1')]);
  t.match(classify({ error: refused }, 0), { message: 'connect ECONNREFUSED ::1:1, connect ECONNREFUSED 1' });
  const failed = new TypeError('fetch failed', { cause: Object.assign(new Error(''), { code: 'ENOTFOUND' }) });
  t.match(classify({ error: failed }, 0), { message: 'fetch failed: ENOTFOUND' });
  t.end();
});

t.test('fails a batch after maxRetries retries', async (t) => {
  const { endpoint, requests } = await service(t, (r) => r.reply(500));
  const clock = new ManualClock();
  const losses: Loss[] = [];
  const onLoss = (loss: Loss) => losses.push(loss);
  const client = new Client('KEY', { endpoint, flushAt: 1, clock, maxRetries: 2, onLoss, onRetry: () => {} });
  client.track({ userId: 'u', event: 'a' });
  for (const wait of [100, 200]) clock.advance(await clock.timer((ms) => ms === wait));
  t.same(await client.close(), { sent: 0, failed: 1, dropped: 0 });
  t.equal(requests.length, 3);
  t.match(losses, [{ reason: 'expired', status: 500 }]);
});

t.test('parses the messages of a loss only when they are read, so that close ends in time', async (t) => {
  const losses: Loss[] = [];
  const options = { maxQueueCount: 50_000, onLoss: (loss: Loss) => losses.push(loss) };
  const client = new Client('KEY', { endpoint: await deadEndpoint(), ...options });
  for (let i = 0; i < 50_000; i++) client.track({ userId: 'u', event: String(i) });
  const { parse } = JSON;
  let parsed = 0;
  JSON.parse = (...args) => {
    parsed++;
    return parse(...args);
  };
  t.teardown(() => {
    JSON.parse = parse;
  });
  t.same(await client.close({ timeout: 0 }), { sent: 0, failed: 0, dropped: 50_000 });
  t.equal(parsed, 0);
  t.same(
    losses.flatMap(({ messages }) => messages.map((m) => m['event'])),
    [...Array(50_000).keys()].map(String),
  );
  t.equal(losses[0]?.messages, losses[0]?.messages, 'once');
});

t.test('keeps the messages of a refused batch readable after others were sent', async (t) => {
  const { endpoint } = await service(t, (r, n) => r.reply(n === 0 ? 400 : 200, success));
  const losses: Loss[] = [];
  const client = new Client('KEY', { endpoint, flushAt: 1, onLoss: (loss) => losses.push(loss) });
  for (const event of ['refused', 'b', 'c']) {
    client.track({ userId: 'u', event });
    await client.flush();
  }
  await client.close();
  t.match(losses, [{ messages: [{ event: 'refused' }] }]);
});

t.test('treats answers through the fetch of the host like its own', async (t) => {
  const { endpoint, requests } = await service(t);
  const urls: string[] = [];
  const client = new Client('KEY', {
    endpoint,
    fetch: (url, init) => {
      urls.push(url);
      return fetch(url, init);
    },
  });
  client.track({ userId: 'u', event: 'é' });
  t.same(await client.close(), { sent: 1, failed: 0, dropped: 0 });
  t.same(urls, [`${endpoint}/v1/batch`]);
  t.match(requests[0], { batch: [{ event: 'é' }], headers: { authorization: `Basic ${btoa('KEY:')}` } });
});

t.test('gives up a fetch that never answers and ignores its signal', async (t) => {
  const clock = new ManualClock();
  const retries: Retry[] = [];
  const client = new Client('KEY', {
    ...{ endpoint: 'http://127.0.0.1:1', flushAt: 1, clock, onRetry: (retry) => retries.push(retry), onLoss: () => {} },
    fetch: () => new Promise(() => {}),
  });
  client.track({ userId: 'u', event: 'a' });
  await clock.timer((ms) => ms === 3_750);
  clock.advance(30_000);
  await clock.timer(backoff);
  t.match(retries, [{ message: 'no answer within 30000 ms' }]);
  const closed = client.close({ timeout: 0 });
  clock.advance(0);
  await closed;
});

t.test('treats a redirect that a fetch does not follow as a refusal of the batch', async (t) => {
  const server = http.createServer((_, response) => response.writeHead(307, { location: 'http://127.0.0.1:1/' }).end());
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  t.teardown(() => server.close());
  const endpoint = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
  const client = new Client('KEY', { endpoint, fetch, onLoss: () => {} });
  client.track({ userId: 'u', event: 'a' });
  t.same(await client.close(), { sent: 0, failed: 1, dropped: 0 });
  t.match(classify({ status: 0, retryAfter: undefined, body: '' }, 0), { kind: 'refused', message: /with a redirect/ });
});
