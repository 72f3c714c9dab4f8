import { spawnSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import t from 'tap';
import { Receiver, status } from './helpers/receiver.ts';
import { destination, message, Rig } from './helpers/rig.ts';

/** The digest as OpenSSL's command computes it from the bytes. */
function opensslDigest(body: Buffer, secret: string): string {
  const { stdout } = spawnSync('openssl', ['dgst', '-sha1', '-hmac', secret], { input: body, encoding: 'utf8' });
  return stdout.trim().split('= ')[1] ?? '';
}

const bodies = {
  'plain ASCII': '{"version":1,"type":"track","userId":"u1","event":"Bought"}',
  'text beyond ASCII': '{"version":1,"type":"identify","userId":"ü-日本","traits":{"name":"Zoë 🎉","n":1e21}}',
  'escapes and controls': '{"version":1,"type":"track","event":"a\\u0000b\\n\\"c\\"\\\\","userId":"\u2028"}',
  'a body of 32 KB': JSON.stringify({ version: 1, type: 'track', event: 'é'.repeat(16_000) }),
};

for (const [name, body] of Object.entries(bodies)) {
  t.test(`sends the bytes with the signature that OpenSSL computes: ${name}`, async (t) => {
    const receiver = await Receiver.start(t);
    const rig = await Rig.start(t, { destinations: [destination(receiver.url, { secrets: ['s3crét-ключ', 'old'] })] });
    await rig.accept('shop', [message({ body })]);
    await rig.settled(1);
    const [request] = receiver.requests;
    t.same(request?.body, Buffer.from(body, 'utf8'), 'the bytes are those that were accepted');
    const expected = opensslDigest(Buffer.from(body, 'utf8'), 's3crét-ключ');
    t.match(expected, /^[0-9a-f]{40}$/);
    t.equal(request?.headers['x-signature'], expected, 'signed with the first of the secrets');
  });
}

t.test('keeps no secrets of the request that an endpoint repeats', async (t) => {
  const receiver = await Receiver.start(t, (response, request) => {
    const { authorization, 'x-api-key': key, 'x-signature': signature } = request.headers;
    response
      .writeHead(400)
      .end(`${request.path}: ${authorization}, ${key}, ${signature}, signed by s3cret-key; no Bearer in authorization`);
  });
  const headers = { authorization: 'Bearer token-of-crm', 'x-api-key': 'key-of-crm', 'x-env': 'prod' };
  const crm = destination(`${receiver.url}?access=query-of-crm`, { secrets: ['s3cret-key'] });
  const endpoints = crm.endpoints.map((endpoint) => ({ ...endpoint, headers }));
  const rig = await Rig.start(t, { destinations: [{ ...crm, endpoints }] });
  await rig.send(1);
  await rig.settled(1);
  const attempt = rig.settlements[0]?.attempts[0];
  t.match(attempt?.response, /access=….*: …, …, [0-9a-f]{40}, signed by …; no Bearer in authorization$/);
  t.notMatch(JSON.stringify(attempt), /of-crm|s3cret/);
});

t.test('signs id, time and bytes with each secret for Standard Webhooks, with X-Signature or alone', async (t) => {
  const secrets = ['new', `whsec_${Buffer.from('the old key').toString('base64')}`];
  for (const signing of ['standard', 'both'] as const) {
    const receiver = await Receiver.start(
      t,
      (response, _, index) => void response.writeHead(index < 1 ? 503 : 204).end(),
    );
    const rig = await Rig.start(t, { destinations: [destination(receiver.url, { secrets, signing })] });
    await rig.send(1);
    await rig.passUntil(() => rig.verdicts.includes('delivered'));
    t.equal(receiver.requests.length, 2);
    for (const { headers, body } of receiver.requests) {
      const id = String(headers['webhook-id']);
      const timestamp = String(headers['webhook-timestamp']);
      t.equal(id, headers['idempotency-key']);
      const signed = Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body]);
      const expected = ['new', 'the old key'].map(
        (key) => `v1,${createHmac('sha256', key).update(signed).digest('base64')}`,
      );
      t.equal(headers['webhook-signature'], expected.join(' '));
      const legacy = signing === 'both' ? createHmac('sha1', 'new').update(body).digest('hex') : undefined;
      t.equal(headers['x-signature'], legacy);
    }
    const [first, second] = receiver.requests.map(({ headers }) => Number(headers['webhook-timestamp']));
    t.ok(
      Number(second) >= Number(first) && Math.abs(Number(first) * 1_000 - rig.clock.now()) < 60_000,
      'the time of the attempt',
    );
  }
});

t.test('sends the headers of the design, and the same Idempotency-Key on every try', async (t) => {
  const receiver = await Receiver.start(
    t,
    (response, _, index) => void response.writeHead(index < 2 ? 503 : 204).end(),
  );
  const rig = await Rig.start(t, { destinations: [destination(receiver.url)] });
  await rig.send(1);
  await rig.passUntil(() => rig.verdicts.includes('delivered'));
  t.equal(receiver.requests.length, 3);
  for (const { method, path, headers } of receiver.requests) {
    t.equal(method, 'POST');
    t.equal(path, '/hook');
    t.equal(headers['user-agent'], 'Rollcall/1.0');
    t.equal(headers['content-type'], 'application/json');
    t.equal(headers['x-signature'], undefined, 'no secret, no signature');
    t.equal(headers['content-length'], String(receiver.requests[0]?.body.length));
    t.match(headers['idempotency-key'], /^[A-Za-z0-9_-]{1,64}$/, 'safe characters only');
  }
  t.equal(new Set(receiver.requests.map(({ headers }) => headers['idempotency-key'])).size, 1);
  t.equal(new Set(receiver.requests.map(({ body }) => body.toString('hex'))).size, 1, 'the same bytes every time');
});

t.test('adds static headers, which cannot replace ours in any case', async (t) => {
  const receiver = await Receiver.start(t);
  const ours = ['User-Agent', 'CONTENT-TYPE', 'x-signature', 'Idempotency-KEY', 'Host'];
  const headers = { ...Object.fromEntries(ours.map((name) => [name, 'theirs'])), 'X-Env': 'prod', 'x-n': '1' };
  const plain = destination(receiver.url, { secrets: ['s'] });
  const endpoints = plain.endpoints.map((endpoint) => ({ ...endpoint, headers }));
  const rig = await Rig.start(t, { destinations: [{ ...plain, endpoints }] });
  await rig.send(1);
  await rig.settled(1);
  const { rawHeaders, headers: seen } = receiver.requests[0]!;
  t.equal(seen['x-env'], 'prod');
  t.equal(seen['x-n'], '1');
  t.notOk(rawHeaders.includes('theirs'), 'none of ours was replaced or doubled');
});

t.test('sends user and password of a URL as basic authorisation, and keeps its query', async (t) => {
  const receiver = await Receiver.start(t);
  const url = receiver.url.replace('http://', 'http://us%40er:p%3Aw@').concat('?token=a%20b&x=1#part');
  const rig = await Rig.start(t, { destinations: [destination(url)] });
  await rig.send(1);
  await rig.settled(1);
  t.equal(receiver.requests[0]?.path, '/hook?token=a%20b&x=1');
  t.equal(receiver.requests[0]?.headers.authorization, `Basic ${Buffer.from('us@er:p:w').toString('base64')}`);
});

t.test('survives a URL whose user is no valid percent-encoding', async (t) => {
  const receiver = await Receiver.start(t);
  const rig = await Rig.start(t, {
    destinations: [destination(receiver.url.replace('http://', 'http://100%25:50%@'))],
  });
  await rig.send(1);
  await rig.settled(1);
  t.equal(receiver.requests[0]?.headers.authorization, `Basic ${Buffer.from('100%:50%').toString('base64')}`);
});

t.test('does not follow redirects', async (t) => {
  const goal = await Receiver.start(t);
  for (const code of [301, 302, 303, 307, 308]) {
    const receiver = await Receiver.start(t, status(code, { location: goal.url }));
    const rig = await Rig.start(t, { destinations: [destination(receiver.url)] });
    await rig.send(1);
    await rig.settled(1);
    t.same(rig.outcomes, [['refused', `status_${code}`]]);
    t.same(rig.verdicts, ['dead']);
    await rig.calm();
    const [attempt] = await rig.store.attempts({ limit: 1 });
    t.equal(attempt?.response, `Location: ${goal.url}\n\n`, 'the log shows where it led to');
  }
  t.equal(goal.requests.length, 0);
});
