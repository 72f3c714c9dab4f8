import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from '../../../src/client/index.ts';
import { slowHandshake } from '../../helpers/slow-handshake.ts';

/*
 * Runs in a network of its own without IPv6, where far.test has an A and an AAAA record and each first handshake takes a second.
 * Prints, as JSON, which connections of the program and of the client library brought a request.
 */
const teardowns: (() => void)[] = [];
const test = { teardown: (end: () => void) => void teardowns.push(end) };
const folder = await mkdtemp(join(tmpdir(), 'rollcall-far-'));
const received: Record<string, boolean> = {};

async function far(name: string, run: (port: number) => Promise<unknown>): Promise<void> {
  const { port, first } = await slowHandshake(test);
  const done = run(port).catch(() => {});
  received[name] = await Promise.race([first.then(() => true), done.then(() => pause(1_000, false))]);
  await done;
}

async function rollcall(config: string, ...args: string[]): Promise<void> {
  const path = join(folder, 'rollcall.yaml');
  await writeFile(path, config);
  const child = spawn(process.execPath, ['src/cli/bin.ts', ...args, '-c', path], { stdio: 'ignore' });
  await new Promise((resolve) => child.once('close', resolve));
}

const service = (url: string) => `
sources: [{ id: shop, writeKey: key }]
destinations: [{ name: crm, sources: [shop], webhookUrl: "${url}" }]
network: { allow: [127.0.0.0/8, "2001:db8::/32"] }
`;
const engine = (url: string) => `${service('http://127.0.0.1:9')}
engines: { far: { type: postgres, url: "${url}" } }
audiences: [{ name: All, key: all, source: shop, engine: far, schedule: "0 0 * * *", sql: select 'a' as user_id }]
`;

await far('delivery', (port) => rollcall(service(`http://far.test:${port}/`), 'test', 'crm'));
await far('postgres', (port) => rollcall(engine(`postgres://u:p@far.test:${port}/db`), 'doctor'));
await far('client', async (port) => {
  const client = new Client('key', { endpoint: `http://far.test:${port}`, maxRetries: 0 });
  client.track({ userId: 'u', event: 'e' });
  await client.close();
});
for (const end of teardowns) end();
await rm(folder, { recursive: true });
console.log(JSON.stringify(received));
process.exit();
