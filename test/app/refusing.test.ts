import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { endpointStatuses } from '../../src/admin/endpoints.ts';
import { App } from '../../src/app.ts';
import { parseConfig } from '../../src/config/load.ts';

/** Listens on loopback, and answers as `statusOf` says. */
async function listen(t: Test, statusOf: (body: Record<string, unknown>) => number): Promise<number> {
  const server: Server = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk) => (text += String(chunk)));
    request.on('end', () => response.writeHead(statusOf(JSON.parse(text))).end());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  return (server.address() as AddressInfo).port;
}

t.test('shows, counts and logs once an endpoint that refuses everything, and delivers everything later', async (t) => {
  const logged = Promise.withResolvers<void>();
  const taken = new Set<unknown>();
  const all = Promise.withResolvers<void>();
  let isMended = false;
  const hook = await listen(t, ({ event }) => {
    if (!isMended) return 401;
    taken.add(event);
    if (taken.size === 40) all.resolve();
    return 200;
  });
  const text = JSON.stringify({
    store: 'sqlite:./rollcall.db',
    listen: { host: '127.0.0.1', port: 0 },
    network: { allow: ['127.0.0.0/8'] },
    sources: [{ id: 'shop', writeKey: 'key' }],
    destinations: [{ name: 'crm', sources: ['shop'], webhookUrl: `http://127.0.0.1:${hook}/in?token=hush` }],
  });
  const config = parseConfig(text, { file: 'rollcall.yaml', folder: t.testdir(), env: {} });
  const lines: string[] = [];
  const write = (line: string) => {
    lines.push(line);
    if (line.includes('refuses everything')) logged.resolve();
  };
  const log = pino({ level: 'info' }, { write });
  const app = await App.create(config, { log });
  t.teardown(() => app.close());
  await app.start({ collect: true, schedules: false });
  for (let call = 0; call < 40; call += 1) {
    const body = JSON.stringify({ version: 1, type: 'track', event: `e${call}`, userId: 'u' });
    await app.accept('shop', [{ type: 'track', messageId: `m${call}`, userId: 'u', integrations: null, body }]);
  }
  await logged.promise;
  t.notMatch(lines.join(''), /hush/);
  t.match(await endpointStatuses(app.store, config.destinations), [
    { destination: 'crm', state: 'refusing', since: String },
  ]);
  t.match(await app.metrics.registry.metrics(), /rollcall_closed_endpoints\{destination="crm",state="refusing"\} 1/);
  isMended = true;
  await all.promise;
  t.equal(lines.filter((line) => line.includes('refuses everything')).length, 1);
});
