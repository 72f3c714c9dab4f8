/** The whole service: `service.ts FOLDER PORT DESCRIPTORS`, with destinations at that port. Sends its own. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { pino } from 'pino';
import { App } from '../../src/app.ts';
import { parseConfig } from '../../src/config/load.ts';

const [folder = '', endpoint = '', descriptors = 'unlimited'] = process.argv.slice(2);
if (descriptors !== 'unlimited') execFileSync('prlimit', [`--pid=${process.pid}`, `--nofile=${descriptors}`]);
const config = {
  store: `sqlite:${join(folder, 'r.db')}`,
  listen: { port: 0, trustedProxies: ['127.0.0.1'] },
  network: { allow: ['127.0.0.0/8'] },
  admin: { token: 'the-token-of-the-operator' },
  sources: [{ id: 'shop', writeKey: 'WK' }],
  destinations: Array.from({ length: 2 }, (_, n) => ({
    ...{ name: `d${n}`, sources: ['shop'], webhookUrl: `http://127.0.0.1:${endpoint}/${n}` },
  })),
};
const parsed = parseConfig(JSON.stringify(config), { file: 'rollcall.yaml', folder, env: {} });
const app = await App.create(parsed, { log: pino({ level: 'error' }, pino.destination(2)) });
await app.start({ collect: true, schedules: true });
process.send?.(Number(new URL(app.address ?? '').port));
