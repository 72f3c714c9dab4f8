import { execFileSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t from 'tap';
import { App } from '../../src/app.ts';
import { parseConfig } from '../../src/config/load.ts';
import { Ledger, SECRET } from '../crash/ledger.ts';

function mount(folder: string, size: string): boolean {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', folder], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

// Not in t.testdir(), which can't remove what is mounted.
const folder = mkdtempSync(join(tmpdir(), 'rollcall-disk-'));
const skip = mount(folder, '8m') ? false : 'no right to mount a small disk';

t.test('answers 503 on a full disk, keeps running and recovers automatically', { skip }, async (t) => {
  const ledger = new Ledger();
  const port = await ledger.listen();
  const text = JSON.stringify({
    store: 'sqlite:./rollcall.db',
    listen: { host: '127.0.0.1', port: 0 },
    network: { allow: ['127.0.0.0/8'] },
    sources: [{ id: 'shop', writeKey: 'key' }],
    destinations: [
      { name: 'crm', sources: ['shop'], sharedSecret: SECRET, webhooks: [{ url: `http://127.0.0.1:${port}/` }] },
    ],
  });
  const config = parseConfig(text, { file: 'rollcall.yaml', folder, env: {} });
  const app = await App.create(config, { log: pino({ level: 'silent' }) });
  await app.start({ collect: true, schedules: false });
  t.teardown(async () => {
    await app.close();
    ledger.close();
    execFileSync('umount', [folder]);
    rmSync(folder, { recursive: true });
  });

  const acknowledged = new Set<string>();
  let sent = 0;
  const send = async () => {
    const ids = Array.from({ length: 10 }, (_, index) => `m${sent + index}`);
    sent += ids.length;
    const filler = 'x'.repeat(20_000);
    const batch = ids.map((messageId) => ({
      type: 'track',
      event: 'E',
      userId: 'u1',
      messageId,
      properties: { filler },
    }));
    const response = await fetch(`${app.address}/v1/batch`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa('key:')}`, 'content-type': 'application/json' },
      body: JSON.stringify({ batch }),
    });
    const body = (await response.json()) as { code?: string };
    if (response.status === 200) for (const id of ids) acknowledged.add(id);
    return { status: response.status, code: body.code, retryAfter: response.headers.get('retry-after') };
  };

  t.equal((await send()).status, 200);
  const other = join(folder, 'other');
  fillDisk(other);
  let answer = await send();
  for (let tries = 0; answer.status === 200 && tries < 100; tries += 1) answer = await send();
  t.match(answer, { status: 503, code: 'store_full', retryAfter: /^\d+$/ });
  t.equal((await fetch(`${app.address}/healthz`)).status, 200, 'the process lives');

  rmSync(other);
  while ((await send()).status !== 200) t.comment('not yet');
  while (![...acknowledged].every((id) => ledger.messages.has(id))) await ledger.accepted(1);
  t.pass('everything that was acknowledged is delivered');
});

function fillDisk(file: string): void {
  const handle = openSync(file, 'w');
  try {
    for (;;) writeSync(handle, Buffer.alloc(4_096));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  } finally {
    closeSync(handle);
  }
}
