import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { App } from '../../src/app.ts';
import { parseConfig } from '../../src/config/load.ts';
import { ADMIN, AS_ADMIN } from '../helpers/admin.ts';

/** A service, and an endpoint that answers when it is told to. */
async function service(t: Test) {
  const receiver = createServer(async (request, response) => {
    const { event } = JSON.parse(await text(request)) as { event: string };
    receiver.emit('post', event, response);
  });
  receiver.listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  t.teardown(() => {
    receiver.close();
    receiver.closeAllConnections();
  });
  const config = JSON.stringify({
    store: 'sqlite:./rollcall.db',
    listen: { host: '127.0.0.1', port: 0 },
    network: { allow: ['127.0.0.0/8'] },
    admin: ADMIN,
    sources: [{ id: 'shop', writeKey: 'key' }],
    destinations: [
      {
        name: 'crm',
        sources: ['shop'],
        webhookUrl: `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`,
      },
    ],
  });
  const open = async () => {
    const parsed = parseConfig(config, { file: 'rollcall.yaml', folder, env: {} });
    const app = await App.create(parsed, { log: pino({ level: 'silent' }) });
    t.teardown(() => app.close());
    await app.start({ collect: true, schedules: false });
    return { app, port: Number(new URL(app.address ?? '').port) };
  };
  const folder = t.testdir();
  const posted = async () => (await once(receiver, 'post')) as [event: string, response: ServerResponse];
  return { open, posted };
}

/** Over a connection of its own, as a load balancer's look is. */
async function ask(port: number, path: string, body?: object) {
  const method = body === undefined ? 'GET' : 'POST';
  const key = { authorization: `Basic ${btoa('key:')}` };
  const headers = { ...(path.startsWith('/v1') ? key : AS_ADMIN), 'content-type': 'application/json' };
  const sent = request({ agent: false, host: '127.0.0.1', port, path, method, headers });
  sent.end(body && JSON.stringify(body));
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  return { status: answer.statusCode, body: JSON.parse(await text(answer)) as object };
}

t.test('reports not ready but accepts messages while running attempts end', async (t) => {
  const { open, posted } = await service(t);
  const { app, port } = await open();
  t.match(await ask(port, '/readyz'), { status: 200 });
  const first = posted();
  t.match(await ask(port, '/v1/track', { event: 'Bought', userId: 'u1' }), { status: 200 });
  const [, response] = await first;
  const closed = app.close();
  t.match(await ask(port, '/readyz'), { status: 503, body: { code: 'stopping' } });
  t.match(await ask(port, '/healthz'), { status: 200 });
  t.match(await ask(port, '/v1/track', { event: 'Late', userId: 'u1' }), { status: 200, body: { success: true } });
  t.match(await ask(port, '/api/v1/destinations'), { status: 200 }, 'questions are answered');
  const orders = ['/api/v1/config/reload', '/api/v1/audiences/big/sync', '/regulations'];
  for (const order of orders) t.match(await ask(port, order, {}), { status: 503, body: { code: 'stopping' } }, order);
  response.end();
  await closed;
  await t.rejects(ask(port, '/readyz'), { code: 'ECONNREFUSED' });
  const second = posted();
  await open();
  const [event, answer] = await second;
  t.equal(event, 'Late', 'the next start delivers it');
  answer.end();
});
