import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, request as requestPath } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { request } from 'undici';
import { sign } from '../../receivers/signature.ts';
import { signStandard } from '../../receivers/verify/standard.ts';
import { listen, rollcall, start } from './helpers.ts';

async function post(url: string, body: string, headers: Record<string, string> = {}): Promise<number> {
  const { statusCode, body: answer } = await request(url, { method: 'POST', body, headers });
  await answer.dump();
  return statusCode;
}

t.test('verifies Standard Webhooks too, and every signature present', async (t) => {
  const listener = await listen(t, '--secret', 's');
  const body = '{"type":"track"}';
  const standard = (secret: string) => ({ ...signStandard(body, secret, { id: 'd-1', at: Date.now() }) });
  t.equal(await post(listener.url, body, standard('s')), 200);
  t.equal(await post(listener.url, body, { ...standard('s'), 'x-signature': sign(body, 's') }), 200);
  t.equal(await post(listener.url, body, { ...standard('s'), 'x-signature': sign(body, 'other') }), 401);
  t.equal(await post(listener.url, body, standard('other')), 401);
  t.match(await listener.stop(), [
    { signature: 'verified' },
    { signature: 'verified' },
    { signature: 'signature_mismatch' },
    { signature: 'webhook_signature_mismatch' },
  ]);
});

t.test('verifies requests and prints them as JSON lines', async (t) => {
  const listener = await listen(t, '--secret', 'new', '--secret', 'old');
  const body = '{"type":"track","event":"Größe"}';
  t.equal(await post(`${listener.url}/a?b=c`, body, { 'x-signature': sign(body, 'old') }), 200);
  t.equal(await post(listener.url, body, { 'x-signature': sign(body, 'other') }), 401);
  t.equal(await post(listener.url, body), 401);
  t.match(await listener.stop(), [
    { method: 'POST', path: '/a?b=c', body: { event: 'Größe' }, signature: 'verified', status: 200 },
    { signature: 'signature_mismatch', status: 401 },
    { signature: 'signature_missing', status: 401 },
  ]);
});

t.test('prints the number of messages in a batch', async (t) => {
  const running = start(['listen', '--port', '0']);
  t.teardown(() => running.stop());
  const [url] = await running.stderr.match(/http:\S+:\d+/);
  t.equal(await post(url, '{"batch":[{},{}],"keys":["a","b"],"sentAt":"2026-01-01T00:00:00.000Z"}'), 200);
  await running.stdout.match(/200, 2 messages in a batch/);
});

t.test('escapes control characters of bodies on a screen', async (t) => {
  const running = start(['listen', '--port', '0'], { tty: true });
  t.teardown(() => running.stop());
  const [url] = await running.stderr.match(/http:\S+:\d+/);
  t.equal(await post(url, 'first\u001b[2J\u001b]0;owned\u0007\u009b2J\u202elast'), 200);
  const [shown] = await running.stdout.match(/first.*last/);
  t.equal(shown, 'first\\u001b[2J\\u001b]0;owned\\u0007\\u009b2J\\u202elast');
});

t.test('accepts anything without a secret, even bodies that are not JSON', async (t) => {
  const listener = await listen(t);
  t.equal(await post(listener.url, 'hello'), 200);
  t.equal(await post(listener.url, ''), 200);
  t.match(await listener.stop(), [{ body: 'hello', signature: 'unsigned' }, { body: '' }]);
});

t.test('fails on purpose, always or for a share of requests', async (t) => {
  const always = await listen(t, '--fail', '503');
  t.equal(await post(always.url, '{}'), 503);
  const never = await listen(t, '--fail', '503:0');
  t.equal(await post(never.url, '{}'), 200);
  t.match(await always.stop(), [{ status: 503 }]);
  t.match(await never.stop(), [{ status: 200 }]);
});

t.test('limits the size of bodies', async (t) => {
  const listener = await listen(t, '--max-body', '10');
  t.equal(await post(listener.url, '0123456789'), 200);
  t.equal(await post(listener.url, '0123456789a'), 413);
  t.match(await listener.stop(), [{ status: 200 }, { status: 413, body: null }]);
});

t.test('ends in spite of a slow answer', async (t) => {
  const running = start(['listen', '--port', '0', '--slow', '1h']);
  const [url] = await running.stderr.match(/http:\S+:\d+/);
  const refused = t.rejects(request(`${url}/slow`, { method: 'POST', body: '{"type":"page"}' }));
  await running.stdout.match(/POST \/slow {2}unsigned → 200\n.*"type": "page"/s);
  t.match(await running.stop(), { code: 0 });
  await refused;
});

t.test('names a port that is in use', async (t) => {
  const listener = await listen(t);
  const { port } = new URL(listener.url);
  t.match(await rollcall(['listen', '--port', port]), {
    code: 2,
    stderr: new RegExp(`port ${port} is taken; --port 0`),
  });
  await listener.stop();
});

const WRONG: Readonly<Record<string, (body: Buffer) => string>> = {
  'It verifies the body after parsing': (body) => sign(JSON.stringify(JSON.parse(body.toString()), null, 2), 's3cret'),
  'It expects uppercase digits': (body) => sign(body, 's3cret').toUpperCase(),
  'It computes HMAC-SHA256': (body) => createHmac('sha256', 's3cret').update(body).digest('hex'),
  'Its secret ends with a newline': (body) => sign(body, 's3cret\n'),
  'The signature is right: compare the secret': (body) => sign(body, 'another'),
};

t.test('forwards requests to an app, and names its mistake if it refuses a right signature', async (t) => {
  let expected = (body: Buffer) => sign(body, 's3cret');
  const seen: string[] = [];
  const app = createServer(async (incoming, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk);
    seen.push(`${incoming.method} ${incoming.url} ${incoming.headers['x-env']}`);
    const isRight = incoming.headers['x-signature'] === expected(Buffer.concat(chunks));
    response.writeHead(isRight ? 202 : 401, { 'content-type': 'text/plain' }).end(isRight ? 'thanks' : 'no');
  });
  await new Promise<void>((resolve) => app.listen(0, '127.0.0.1', resolve));
  t.teardown(() => app.close());
  const { port } = app.address() as AddressInfo;
  const listener = await listen(t, '--secret', 's3cret', '--forward', `http://127.0.0.1:${port}`);
  const body = '{"type":"track","event":"Größe"}';
  const headers = { 'x-signature': sign(body, 's3cret'), 'x-env': 'prod' };
  t.equal(await post(`${listener.url}/hooks?a=b`, body, headers), 202);
  t.same(seen, ['POST /hooks?a=b prod']);
  // Neither way of naming another server leads anywhere else.
  for (const path of ['//127.0.0.2:9/x?a=b', 'http://127.0.0.2:9/x?a=b']) {
    const asked = requestPath(listener.url, { path, method: 'POST', headers }).end(body);
    const [{ statusCode }] = (await once(asked, 'response')) as [IncomingMessage];
    t.equal(statusCode, 202, path);
  }
  t.same(seen.splice(1), ['POST //127.0.0.2:9/x?a=b prod', 'POST /x?a=b prod']);
  for (const wrong of Object.values(WRONG)) {
    expected = wrong;
    t.equal(await post(listener.url, body, headers), 401);
  }
  app.close();
  app.closeAllConnections();
  t.equal(await post(listener.url, body, headers), 502);
  const printed = await listener.stop();
  t.match(printed[0], { status: 202, answer: { status: 202, body: 'thanks', advice: null } });
  for (const [index, advice] of Object.keys(WRONG).entries()) t.match(printed[index + 3], { answer: { advice } });
  t.match(printed.at(-1), { answer: { advice: 'The app did not answer: ECONNREFUSED' } });
  t.match(await rollcall(['listen', '--forward', 'localhost:3000']), { code: 2, stderr: /It must be a URL/ });
});
