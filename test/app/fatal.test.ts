import { pino } from 'pino';
import t, { type Test } from 'tap';
import { App } from '../../src/app.ts';
import { parseConfig } from '../../src/config/load.ts';
import { armFailpoint } from '../../src/kernel/failpoint.ts';

/** A service on a new store, and the lines that it logs. */
async function service(t: Test) {
  const text =
    'store: sqlite:./rollcall.db\nlisten: { host: 127.0.0.1, port: 0 }\nsources: [{ id: shop, writeKey: key }]\n';
  const config = parseConfig(text, { file: 'rollcall.yaml', folder: t.testdir({}), env: {} });
  const lines: { level: number; code?: string; msg: string }[] = [];
  const log = pino({ level: 'fatal' }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const app = await App.create(config, { log });
  await app.start({ collect: true, schedules: true });
  t.teardown(() => app.close());
  const get = async (path: string) => {
    const response = await fetch(`${app.address}${path}`);
    return { status: response.status, body: (await response.json()) as { code?: string } };
  };
  const send = () =>
    fetch(`${app.address}/v1/track`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa('key:')}`, 'content-type': 'application/json' },
      body: JSON.stringify({ event: 'Bought', userId: 'u1' }),
    });
  return { app, lines, get, send };
}

t.test('notifies the embedding app of a failure, and answers 503 until it is closed', async (t) => {
  armFailpoint('accept', 1, 'throw');
  const { app, lines, get, send } = await service(t);
  t.same((await get('/healthz')).status, 200);
  const [failure] = await Promise.allSettled([app.failed, send()]);
  t.match(failure, { status: 'rejected', reason: { code: 'store_failed', message: /a fault that a test asked for/ } });
  t.match(lines, [{ code: 'store_failed', msg: /can't continue/ }]);
  for (const path of ['/healthz', '/readyz']) t.match(await get(path), { status: 503, body: { code: 'stopping' } });
  const refused = await send();
  t.equal(refused.status, 503);
  t.match(refused.headers.get('retry-after'), /^\d+$/);
  await app.close();
  t.equal(lines.length, 1, 'it is said once');
});

t.test('reports a failure if the server closes unexpectedly, but not when the service is closed', async (t) => {
  const { app, lines } = await service(t);
  const { server } = app as unknown as { server: { server: { close(): void; closeAllConnections(): void } } };
  server.server.close();
  server.server.closeAllConnections();
  await t.rejects(app.failed, { code: 'internal_error', message: /HTTP server/ });
  t.equal(lines.length, 1);
  const other = await service(t);
  await other.app.close();
  t.same(other.lines, []);
});
