import { execFileSync } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { freePort } from '../helpers/free-port.ts';
import { start } from './helpers.ts';

const folder = mkdtempSync(join(tmpdir(), 'rollcall-full-'));
const disk = join(folder, 'disk');
const other = join(disk, 'other');
mkdirSync(disk);
const skip = (() => {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', disk], { stdio: 'ignore' });
    return false;
  } catch {
    return 'no right to mount a small disk';
  }
})();
const home = process.cwd();
t.teardown(() => {
  process.chdir(home);
  if (!skip) execFileSync('umount', [disk]);
  rmSync(folder, { recursive: true });
});

t.test('answers 503 on a full disk at the first start, and begins once there is room', { skip }, async (t) => {
  const handle = openSync(other, 'w');
  try {
    for (;;) writeSync(handle, Buffer.alloc(4_096));
  } catch {
    closeSync(handle);
  }
  const port = await freePort();
  const config = join(folder, 'rollcall.yaml');
  writeFileSync(
    config,
    JSON.stringify({
      store: 'sqlite:./disk/rollcall.db',
      listen: { host: '127.0.0.1', port },
      sources: [{ id: 'shop', writeKey: 'key' }],
      destinations: [{ name: 'crm', sources: ['shop'], sharedSecret: 's', webhookUrl: 'https://crm.example/hooks' }],
    }),
  );
  const service = start(['serve', '-c', config]);
  t.teardown(() => service.stop());
  await service.stderr.match(/starts once there is room/);
  const address = `http://127.0.0.1:${port}`;
  const send = () =>
    fetch(`${address}/v1/track`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa('key:')}` },
      body: JSON.stringify({ event: 'e', userId: 'u' }),
    }).catch(() => null);
  const asked = async (path: string) => (await fetch(address + path).catch(() => null))?.status ?? 0;
  while ((await asked('/healthz')) === 0) await soon();
  t.equal(await asked('/healthz'), 200);
  t.equal(await asked('/readyz'), 503);
  const refused = await send();
  t.equal(refused?.status, 503);
  t.match(refused?.headers.get('retry-after'), /^\d+$/);
  t.match(await refused?.json(), { code: 'store_full', message: 'The store is full; try again later.' });

  rmSync(other);
  await service.stderr.match(/Rollcall answers at/);
  t.equal((await send())?.status, 200);
  t.equal(await asked('/readyz'), 200);
  t.equal((await service.stop()).code, 0);
});

t.test('can be interrupted while a start waits for room', { skip }, async (t) => {
  const handle = openSync(other, 'w');
  try {
    for (;;) writeSync(handle, Buffer.alloc(4_096));
  } catch {
    closeSync(handle);
  }
  for (const file of ['rollcall.db', 'rollcall.db-id', 'rollcall.db-wal', 'rollcall.db-shm', 'rollcall.db-reserve']) {
    rmSync(join(disk, file), { force: true });
  }
  const again = openSync(other, 'a');
  try {
    for (;;) writeSync(again, Buffer.alloc(4_096));
  } catch {
    closeSync(again);
  }
  const service = start(['serve', '-c', join(folder, 'rollcall.yaml')]);
  await service.stderr.match(/starts once there is room/);
  t.equal((await service.stop()).code, 0);
});

const soon = () => new Promise((resolve) => setTimeout(resolve, 50));
