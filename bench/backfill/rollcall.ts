import { pino } from 'pino';
import { App } from '../../src/app.ts';
import { parseConfig } from '../../src/config/load.ts';

const [port, folder = '', purchases] = process.argv.slice(2);
const content = {
  store: 'sqlite:./rollcall.db',
  network: { allow: ['127.0.0.0/8'] },
  sources: [{ id: 'personas', writeKey: 'key' }],
  destinations: [
    { name: 'crm', sources: ['personas'], sharedSecret: 'bench-secret', webhookUrl: `http://127.0.0.1:${port}/hooks` },
  ],
  engines: { lake: { type: 'duckdb', path: './audiences.duckdb' } },
  audiences: [
    {
      name: 'Customers',
      source: 'personas',
      // The columns are divided by any number of spaces.
      sql: `select distinct regexp_extract(line, '^ *([0-9]+)', 1) as user_id
            from read_csv('${purchases}', columns = {'line': 'VARCHAR'}, delim = '\\x01', quote = '', skip = 1, header = false)`,
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
