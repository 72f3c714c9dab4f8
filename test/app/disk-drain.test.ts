import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readdirSync, readlinkSync, rmSync, writeSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { App } from '../../src/app.ts';
import { parseConfig } from '../../src/config/load.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { NO_EVENTS } from '../../src/store/port.ts';
import { openSqliteStore } from '../../src/store/sqlite/store.ts';
import { accept, claim, codeOf, DELIVERED, message, settle } from '../contract/store-fixture.ts';
import { freePort } from '../helpers/free-port.ts';

const canMount = (() => {
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-mount-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', folder], { stdio: 'ignore' });
    execFileSync('umount', [folder]);
    return true;
  } catch {
    return false;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
})();
const skip = canMount ? false : 'no right to mount a small disk';

/** A disk of eight megabytes. Not in t.testdir(), which can't remove what is mounted. */
function smallDisk(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-disk-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', folder]);
  t.teardown(() => {
    execFileSync('umount', [folder]);
    rmSync(folder, { recursive: true });
  });
  return folder;
}

/** How often this process has a file open. */
function handlesOn(path: string): number {
  const links = readdirSync('/proc/self/fd').map((name) => {
    try {
      return readlinkSync(`/proc/self/fd/${name}`);
    } catch {
      // Closed meanwhile.
      return null;
    }
  });
  return links.filter((link) => link === path).length;
}

/** Takes whatever room is left. */
function fill(folder: string): () => void {
  const file = join(folder, 'other');
  const handle = openSync(file, 'a');
  try {
    for (;;) writeSync(handle, Buffer.alloc(4_096));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  } finally {
    closeSync(handle);
  }
  return () => rmSync(file);
}

/** A receiver that is not there at first. */
async function absentReceiver(t: Test) {
  const got = new Set<string>();
  const server = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk) => {
      text += String(chunk);
    });
    request.on('end', () => {
      got.add((JSON.parse(text) as { messageId: string }).messageId);
      response.end();
    });
  });
  const port = await freePort();
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  const appear = async () => {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
  };
  return { got, port, appear };
}

async function service(folder: string, port: number) {
  const text = JSON.stringify({
    store: 'sqlite:./rollcall.db',
    listen: { host: '127.0.0.1', port: 0 },
    network: { allow: ['127.0.0.0/8'] },
    sources: [{ id: 'shop', writeKey: 'key' }],
    destinations: [{ name: 'crm', sources: ['shop'], sharedSecret: 's', webhookUrl: `http://127.0.0.1:${port}/` }],
  });
  const config = parseConfig(text, { file: 'rollcall.yaml', folder, env: {} });
  const app = await App.create(config, { log: pino({ level: 'silent' }) });
  await app.start({ collect: true, schedules: false });
  let sent = 0;
  const acknowledged = new Set<string>();
  return {
    app,
    acknowledged,
    ready: async () => (await fetch(`${app.address}/readyz`)).status,
    async send() {
      const filler = 'x'.repeat(20_000);
      const batch = Array.from({ length: 10 }, () => {
        sent += 1;
        return { type: 'track', event: 'E', userId: 'u', messageId: `${folder} ${sent}`, properties: { filler } };
      });
      const response = await fetch(`${app.address}/v1/batch`, {
        method: 'POST',
        headers: { authorization: `Basic ${btoa('key:')}`, 'content-type': 'application/json' },
        body: JSON.stringify({ batch }),
      });
      const { code } = (await response.json()) as { code?: string };
      if (response.status === 200) for (const { messageId } of batch) acknowledged.add(messageId);
      return { status: response.status, code, retryAfter: response.headers.get('retry-after') };
    },
    /** Has a dead endpoint be posted to at once. */
    async resume() {
      for (const state of await app.store.endpoints()) {
        await app.store.markEndpoint({ ...state, pausedAt: null, deadSince: null });
      }
    },
  };
}

const soon = () => new Promise((resolve) => setTimeout(resolve, 50));

t.test('delivers acknowledged messages on a full disk, and resumes intake once there is room', { skip }, async (t) => {
  const folder = smallDisk(t);
  const receiver = await absentReceiver(t);
  const { app, send, ready, resume, acknowledged } = await service(folder, receiver.port);
  t.teardown(() => app.close());
  for (let batch = 0; batch < 8; batch += 1) t.equal((await send()).status, 200);
  t.equal(await ready(), 200);
  const empty = fill(folder);
  let answer = await send();
  for (let tries = 0; answer.status === 200 && tries < 100; tries += 1) answer = await send();
  t.match(answer, { status: 503, code: 'store_full', retryAfter: /^\d+$/ });
  t.equal(await ready(), 503, 'who balances load is told');
  t.equal((await fetch(`${app.address}/healthz`)).status, 200);

  await receiver.appear();
  await resume();
  while (receiver.got.size < acknowledged.size) await soon();
  const settled = async () => (await app.store.backlog())[0]?.pending === 0;
  while (!(await settled())) await soon();
  t.ok(acknowledged.size >= 80, `${acknowledged.size} deliveries are made and settled on a full disk`);

  empty();
  while ((await send()).status !== 200) await soon();
  t.equal(await ready(), 200);
  while (receiver.got.size < acknowledged.size) await soon();
});

t.test('accepts messages in the space of a drained store while the disk stays full', { skip }, async (t) => {
  const folder = smallDisk(t);
  const receiver = await absentReceiver(t);
  const { app, send, resume, acknowledged } = await service(folder, receiver.port);
  t.teardown(() => app.close());
  let answer = await send();
  for (let tries = 0; answer.status === 200 && tries < 100; tries += 1) answer = await send();
  t.match(answer, { status: 503, code: 'store_full' });
  await receiver.appear();
  await resume();
  while (receiver.got.size < acknowledged.size) await soon();
  while ((await send()).status !== 200) await soon();
  t.pass('its own file has room again');
});

t.test('starts and delivers on a full disk, and is ready once there is room', { skip }, async (t) => {
  const folder = smallDisk(t);
  const receiver = await absentReceiver(t);
  const before = await service(folder, receiver.port);
  for (let batch = 0; batch < 8; batch += 1) await before.send();
  await before.app.close();
  const empty = fill(folder);
  const { app, send, ready, resume } = await service(folder, receiver.port);
  t.teardown(() => app.close());
  t.equal(handlesOn(join(folder, 'rollcall.db')), 1, 'the try that had no room has closed the file');
  let answer = await send();
  for (let tries = 0; answer.status === 200 && tries < 100; tries += 1) answer = await send();
  t.match(answer, { status: 503, code: 'store_full', retryAfter: /^\d+$/ });
  t.equal(await ready(), 503);
  await receiver.appear();
  await resume();
  while (receiver.got.size < before.acknowledged.size) await soon();
  t.pass('what was acknowledged before is delivered');
  empty();
  while ((await send()).status !== 200) await soon();
  t.equal(await ready(), 200);
});

t.test('fails only the operations that need more room than a full disk has', { skip }, async (t) => {
  const folder = smallDisk(t);
  const path = join(folder, 'rollcall.db');
  const store = await openSqliteStore({ path, maxQueued: 10_000, clock: systemClock, events: NO_EVENTS });
  t.teardown(() => store.close());
  const body = `{"filler":"${'x'.repeat(20_000)}"}`;
  const owner = await store.join(60_000);
  // One by one, so that the log stays small.
  for (let n = 0; n < 100; n += 1) await accept(store, message({ body }));
  const claims = await claim(store, owner);
  fill(folder);
  let code: string | null = null;
  for (let tries = 0; code === null && tries < 1_000; tries += 1) code = await codeOf(accept(store, message({ body })));
  t.equal(code, 'store_full');
  // What is deleted is overwritten, in the log first. In the same turn, these share a group.
  const [delivered, looked, settled] = await Promise.all([
    codeOf(settle(store, owner, claims.slice(1), DELIVERED)),
    codeOf(store.endpoints()),
    codeOf(settle(store, owner, claims.slice(0, 1), DELIVERED)),
  ]);
  t.same([delivered, looked, settled], ['store_full', null, null]);
  for (let at = 1; at < claims.length; at += 20) {
    t.equal(await codeOf(settle(store, owner, claims.slice(at, at + 20), DELIVERED)), null);
  }
});
