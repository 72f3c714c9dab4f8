import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { launch, track } from './program.ts';

/** Has the programs write the code of what most tests have them do: serve, sync and deliver. */
export async function writeCode(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-code-'));
  const arrived = Promise.withResolvers<void>();
  const receiver = createServer((_request, response) => response.end(() => arrived.resolve())).listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  const config = join(folder, 'rollcall.json');
  await writeFile(
    config,
    JSON.stringify({
      store: 'sqlite:./rollcall.db',
      listen: { port: 0 },
      network: { allow: ['127.0.0.0/8'] },
      sources: [{ id: 'shop', writeKey: 'key' }],
      destinations: [
        {
          name: 'app',
          sources: ['shop'],
          sharedSecret: 'secret',
          webhookUrl: `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`,
        },
      ],
      audiences: [{ name: 'Everybody', source: 'shop', sql: "select 'u1' as user_id" }],
    }),
  );
  process.env['WRITE_CODE'] = 'yes';
  const { child, ended, address } = launch(['start', '-c', config]);
  const url = await address;
  const status = url === null ? null : await track(url, 'key', 'm1');
  if (status === 200) await Promise.race([arrived.promise, ended]);
  child.kill('SIGTERM');
  const served = await ended;
  assert.deepEqual([served.code, status], [0, 200], served.stderr);
  const synced = await launch(['sync', '--once', '-c', config]).ended;
  assert.equal(synced.code, 0, synced.stderr);
  receiver.closeAllConnections();
  receiver.close();
  await rm(folder, { recursive: true });
}
