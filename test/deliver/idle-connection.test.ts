import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { type AgentOptions, createAgent } from '../../src/deliver/http/agent.ts';

/** Makes one request with an agent of its own; `closed` resolves when the server sees that its connection is closed. */
async function connection(t: Test, server: Server, options: Partial<AgentOptions>) {
  const agent = createAgent({ allow: ['127.0.0.0/8'], ca: [], proxy: null, ...options });
  t.teardown(() => agent.destroy());
  const closed = once(server, 'connection').then(([socket]) => once(socket, 'end'));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { body } = await agent.request({ origin, path: '/', method: 'POST' });
  await body.dump();
  return { closed };
}

const hints = [
  ['without a hint how long it may stay open', {}],
  ['that may stay open for longer', { 'keep-alive': 'timeout=60' }],
] as const;

for (const [which, headers] of hints) {
  t.test(`closes an idle connection ${which} after the idle time`, async (t) => {
    const server = createServer((_, response) => response.writeHead(200, headers).end());
    // With a timeout of its own the server would give a hint.
    server.keepAliveTimeout = 0;
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.teardown(() => server.close());
    const usual = await connection(t, server, {});
    const short = await connection(t, server, { idleTimeout: 50 });
    const first = await Promise.race([usual.closed.then(() => 'usual'), short.closed.then(() => 'short')]);
    t.equal(first, 'short', 'although it was made later');
  });
}
