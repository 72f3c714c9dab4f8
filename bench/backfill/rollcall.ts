/** The first sync, from the query on. */
import { pino } from 'pino';
import { App } from '../../src/app.ts';
import { parseConfig } from '../../src/config/load.ts';
import { BATCH, SECRET, type Work } from './work.ts';

const { port, folder, calls, isBatched, hasColumns = false }: Work = JSON.parse(process.argv[2] ?? '{}');
const webhook = { url: `http://127.0.0.1:${port}/hooks` };
const batch = { size: BATCH.size, wait: `${BATCH.wait}ms` };
const webhooks = [isBatched ? { ...webhook, batch } : webhook];
const users = `from range(1, ${calls + 1})`;
const columns = `, 'user_' || range || '@example.com' as email, ['free', 'pro', 'team'][1 + range % 3] as plan`;
const content = {
  store: 'sqlite:./rollcall.db',
  network: { allow: ['127.0.0.0/8'] },
  sources: [{ id: 'personas', writeKey: 'key' }],
  destinations: [{ name: 'crm', sources: ['personas'], sharedSecret: SECRET, webhooks }],
  engines: { lake: { type: 'duckdb', path: './audiences.duckdb' } },
  audiences: [
    {
      ...{ name: 'Customers', source: 'personas' },
      sql: `select range::varchar as user_id${hasColumns ? columns : ''} ${users}`,
      ...(hasColumns && { with: ['email', 'plan'] }),
    },
  ],
};
const config = parseConfig(JSON.stringify(content), { file: 'rollcall.yaml', folder, env: {} });
const app = await App.create(config, { log: pino({ level: 'error' }) });
await app.start({ collect: false, schedules: false });
process.once('message', async () => {
  const startedAt = performance.now();
  const [report] = await app.sync.run();
  if (report?.error) throw report.error;
  const { delivered } = await app.delivered((report?.runs ?? []).map(({ id }) => id));
  process.send?.({ calls: delivered, seconds: (performance.now() - startedAt) / 1_000 });
});
process.send?.('ready');
