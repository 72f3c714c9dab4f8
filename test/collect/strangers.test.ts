import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { authorization, type Service, startService, track } from './service.ts';

const batch = JSON.stringify({ batch: [track] });
const withKey = JSON.stringify({ batch: [track], writeKey: 'WK_shop' });

/** A request without a key: `size` bytes announced, and so many of them sent. */
function head(size: number, headers = ''): string {
  return `POST /v1/batch HTTP/1.1\r\nhost: a\r\n${headers}content-length: ${size}\r\n\r\n`;
}

async function hold(t: Test, service: Service, bytes: string | Buffer): Promise<Socket> {
  const { hostname, port } = new URL(await service.url());
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {});
  t.teardown(() => socket.destroy());
  await once(socket, 'connect');
  socket.write(bytes);
  return socket;
}

/** Status of an honest batch: with its key in the head, in the address, and in the body. */
async function honest(service: Service): Promise<number[]> {
  const url = `${await service.url()}/v1/batch`;
  const gzip = { 'content-encoding': 'gzip' };
  const answers = await Promise.all([
    fetch(url, { method: 'POST', headers: { authorization, ...gzip }, body: gzipSync(batch) }),
    fetch(`${url}?writeKey=WK_shop`, { method: 'POST', body: batch }),
    fetch(url, { method: 'POST', body: withKey }),
    fetch(url, { method: 'POST', headers: gzip, body: gzipSync(withKey) }),
  ]);
  return answers.map(({ status }) => status);
}
const served = [200, 200, 200, 200];

t.test('serves others at full speed while 300 requests without a key hold on', async (t) => {
  const service = startService(t);
  const seen = countRequests(service, 300);
  for (let n = 0; n < 300; n += 1) await hold(t, service, `${head(512_000, 'content-encoding: gzip\r\n')}x`);
  await seen;
  t.strictSame(await honest(service), served);
});

t.test('accepts 600 small requests with gzip at once', async (t) => {
  const { app } = startService(t);
  const payload = gzipSync(JSON.stringify({ batch: [track, track, track] }));
  const headers = { authorization, 'content-encoding': 'gzip' };
  const answers = await Promise.all(
    Array.from({ length: 600 }, () => app.inject({ method: 'POST', url: '/v1/batch', payload, headers })),
  );
  t.strictSame(new Set(answers.map(({ statusCode }) => statusCode)), new Set([200]));
});

t.test('never parses a large body without a known key, however it is nested', async (t) => {
  const { app } = startService(t);
  const parse = JSON.parse;
  let longest = 0;
  JSON.parse = (json, reviver) => {
    longest = Math.max(longest, String(json).length);
    return parse(json, reviver);
  };
  t.teardown(() => (JSON.parse = parse));
  const bomb = `{"batch":[${'['.repeat(250_000)}${']'.repeat(250_000)}]`;
  const wide = `{"batch":[{}],"context":[${'{},'.repeat(160_000)}{}]`;
  for (const json of [bomb, wide, `${bomb},"writeKey":"nobody"`, `${wide},"writeKey":"nobody"`]) {
    const payload = gzipSync(`${json}}`);
    t.ok(payload.length < 1_000);
    const answer = await app.inject({
      method: 'POST',
      url: '/v1/batch',
      payload,
      headers: { 'content-encoding': 'gzip' },
    });
    t.equal(answer.statusCode, 401);
  }
  t.ok(longest < 10_000, `${longest} characters were parsed`);
  const known = await app.inject({ method: 'POST', url: '/v1/batch', payload: `${bomb},"writeKey":"WK_shop"}` });
  t.match(parse(known.body), { rejected: [{ code: 'invalid_message' }] });
});

t.test('finds the write key of a small body and of a large one', async (t) => {
  const writeKey = 'a/ü"\\b';
  const { app, accepted } = startService(t, { sources: () => [{ id: 'shop', writeKey, enabled: true }] });
  const key = JSON.stringify(writeKey);
  const items = Array.from({ length: 2_000 }, (_, index) => ({ ...track, properties: { writeKey: `of ${index}` } }));
  for (const batch of [[track], items]) {
    const list = JSON.stringify(batch);
    for (const payload of [
      `{"batch":${list},"writeKey":${key}}`,
      `{"writeKey" : ${key},"batch":${list},"context":{"writeKey":"other"}}`,
      `{"batch":${list},"writeKey":${key.replace('/', '\\/').replace('ü', '\\u00fc')}}`,
      `{"writeKey":"other","batch":${list},"writeKey":${key}}`,
    ]) {
      const answer = await app.inject({ method: 'POST', url: '/v1/batch', payload });
      t.equal(answer.body, '{"success":true}');
    }
    const nested = `{"batch":${list},"context":{"writeKey":${key}}}`;
    const answer = await app.inject({ method: 'POST', url: '/v1/batch', payload: nested });
    t.equal(answer.statusCode, 401, 'a key counts at the top of the body only');
  }
  t.equal(accepted.length, 8);
  const spelled = JSON.stringify({ ...track, writeKey }).replace('writeKey', 'write\\u004bey');
  t.equal((await app.inject({ method: 'POST', url: '/v1/track', payload: spelled })).statusCode, 200);
});

t.test('inflates a small body without waiting for bombs', async (t) => {
  const { app } = startService(t);
  const bomb = gzipSync(`{"batch":[${'['.repeat(240_000)}${']'.repeat(240_000)}]}`);
  const headers = { 'content-encoding': 'gzip' };
  let bombs = 0;
  const attack = Array.from({ length: 40 }, async () => {
    await app.inject({ method: 'POST', url: '/v1/batch', payload: bomb, headers });
    bombs += 1;
  });
  const answer = await app.inject({ method: 'POST', url: '/v1/batch', payload: gzipSync(withKey), headers });
  t.equal(answer.statusCode, 200);
  t.ok(bombs < 20, `${bombs} of 40 bombs were answered before it`);
  await Promise.all(attack);
});

t.test('cuts the oldest request without a key to make room for a new one', async (t) => {
  const service = startService(t, { edge: { strangerBytes: 400_000 } });
  const filler = 'x'.repeat(60_000);
  const seen = countRequests(service, 1);
  const first = await hold(t, service, head(500_000) + filler);
  const closed = once(first, 'close');
  await seen;
  const second = await hold(t, service, head(500_000) + filler);
  await closed;
  t.strictSame(await honest(service), served);
  t.equal(second.destroyed, false, 'it may go on');
});

t.test('charges a body in chunks of one byte for the memory that it holds', async (t) => {
  const service = startService(t, { edge: { strangerBytes: 400_000 } });
  const chunks = '1\r\nx\r\n'.repeat(5_000);
  const socket = await hold(
    t,
    service,
    `POST /v1/batch HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n${chunks}`,
  );
  await once(socket, 'close');
});

t.test('leaves other sources their share while one floods', async (t) => {
  const never = new Promise<never>(() => {});
  const sources = ['flood', 'other'].map((id) => ({ id, writeKey: id, enabled: true }));
  let held = 0;
  const accept = async (source: string) => {
    if (source !== 'flood') return;
    held += 1;
    await never;
  };
  const { app } = startService(t, { sources: () => sources, accept, edge: { pendingBytes: 300_000 } });
  const payload = JSON.stringify({ ...track, filler: 'x'.repeat(20_000) });
  const send = (key: string) => app.inject({ method: 'POST', url: `/v1/track?writeKey=${key}`, payload });
  let refused = false;
  while (!refused) refused = (await Promise.race([send('flood'), turn(30)]))?.statusCode === 503;
  t.ok(held * payload.length > 200_000, `${held} were taken`);
  t.equal((await send('other')).statusCode, 200);
  t.equal((await send('flood')).statusCode, 503);
});

/** Resolves once the service has the heads of so many requests. */
function countRequests({ app }: Service, count: number): Promise<void> {
  return new Promise((resolve) => {
    let left = count;
    app.server.on('request', () => {
      left -= 1;
      if (left === 0) resolve();
    });
  });
}

async function turn(times: number): Promise<undefined> {
  for (let n = 0; n < times; n += 1) await new Promise((resolve) => setImmediate(resolve));
}
