import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import t from 'tap';
import { createReceiver, type Message, type StandaloneOptions, sign } from '../../receivers/index.ts';
import { createSender, webhook } from '../../receivers/testing.ts';
import { hosts, silent } from './helpers/hosts.ts';
import { body, post, secret } from './helpers/samples.ts';

for (const [edge, host] of Object.entries(hosts)) {
  const start = async (t: { after(f: () => Promise<void>): void }, options: Partial<StandaloneOptions>) => {
    const running = await host({ secret, on: {}, ...options } as StandaloneOptions);
    t.after(running.close);
    return running.url;
  };

  t.test(`${edge}: passes each kind to its handler, alias with readable names`, async (t) => {
    const seen: Message[] = [];
    const keep = (message: Message) => void seen.push(message);
    const on = { identify: keep, track: keep, page: keep, screen: keep, group: keep, alias: keep, delete: keep };
    const url = await start(t, { on });
    for (const kind of ['identify', 'track', 'page', 'screen', 'group', 'delete'] as const) {
      t.match(await post(url, body(kind)), { status: 200, body: { received: true } });
      t.same(seen.pop(), JSON.parse(body(kind)));
    }
    await post(url, body('alias'));
    t.match(seen.pop(), { type: 'alias', previousId: 'anon', userId: 'u1' });
  });

  t.test(`${edge}: answers 500 if a handler throws, and handles the same bytes again`, async (t) => {
    let calls = 0;
    const errors: unknown[] = [];
    const track = async () => {
      calls += 1;
      if (calls === 1) throw new Error('boom');
    };
    const url = await start(t, { on: { track, error: (error) => void errors.push(error) } });
    t.match(await post(url, body('track')), { status: 500, body: { code: 'handler_failed' } });
    t.match(errors, [{ message: 'boom' }]);
    t.match(await post(url, body('track')), { status: 200, body: { received: true } });
    t.match(await post(url, body('track')), { status: 200, body: { duplicate: true } });
    t.equal(calls, 2);
  });

  t.test(`${edge}: cuts off a body without announced length at the limit`, async (t) => {
    const url = await start(t, { bodyLimit: 1000, on: { any: () => t.fail('it must not be handled') } });
    const sender = createSender({ url, secret });
    const large = webhook('track', { properties: { text: 'x'.repeat(2000) } });
    t.equal((await sender.send(large, { headers: { 'content-length': undefined }, pieces: [500, 600] })).status, 413);
    t.equal((await sender.send(large)).status, 413);
  });

  t.test(`${edge}: accepts a second secret during rotation, and reports it`, async (t) => {
    const places: unknown[] = [];
    const url = await start(t, { secret: ['new', 'old'], on: { any: (_, d) => void places.push(d.secret) } });
    for (const each of ['new', 'old']) {
      t.equal((await post(url, body('track'), { 'x-signature': sign(body('track'), each) })).status, 200);
    }
    t.same(places, [0, 1]);
  });
}

t.test('node: takes Buffers from a body parser, and fails as the host on anything else', async (t) => {
  const hooks = createReceiver({ secret, on: {}, log: silent });
  const app = async (request: IncomingMessage & { body?: unknown }, response: ServerResponse) => {
    const bytes = await buffer(request);
    request.body = request.url === '/raw' ? bytes : JSON.parse(String(bytes));
    hooks.node(request, response);
  };
  const server = createServer(app).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  t.equal((await createSender({ url: `${url}/raw`, secret }).send(webhook('track'))).status, 200);
  t.match(await createSender({ url, secret }).send(webhook('track')), { status: 500, body: /body_already_read/ });
});
