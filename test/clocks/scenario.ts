import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import type { Test } from 'tap';
import { systemClock } from '../../src/clock.ts';
import { openStore } from '../../src/store/open.ts';
import { FakeClocks } from './faketime.ts';

const BACKLOG = 100;
const LATER = 20;
/** What a recovered endpoint may take to get a backlog that was tried a few times, in milliseconds: far from an hour. */
const PATIENCE = 90_000;

/** An endpoint that is down while told so, and writes down what it took. */
class Endpoint {
  isUp = true;
  refused = 0;
  readonly taken = new Map<string, string[]>();
  private readonly server = createServer((request, response) => {
    if (!this.isUp) {
      this.refused += 1;
      response.destroy();
      return;
    }
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { messageId } = JSON.parse(Buffer.concat(chunks).toString()) as { messageId: string };
      this.taken.set(messageId, [...(this.taken.get(messageId) ?? []), String(request.headers['idempotency-key'])]);
      response.end();
    });
  });

  async listen(): Promise<string> {
    this.server.listen(0, '127.0.0.1');
    await once(this.server, 'listening');
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/`;
  }

  close(): void {
    this.server.close();
    this.server.closeAllConnections();
  }
}

/** The real service, as a process whose wall clock is set by `steps` (in seconds) one after the other, with a backlog each time. */
export async function setClocks(t: Test, steps: readonly number[], store = 'sqlite:./rollcall.db'): Promise<void> {
  const folder = t.testdir({});
  const endpoint = new Endpoint();
  const url = await endpoint.listen();
  t.teardown(() => endpoint.close());
  const config = join(folder, 'rollcall.yaml');
  writeFileSync(config, JSON.stringify(configuration(store, url)));
  const clocks = new FakeClocks(join(folder, 'clocks'));
  const child = fork(
    new URL('../crash/service.ts', import.meta.url),
    [JSON.stringify({ config, failpoint: null, syncAsOf: null, ahead: 0 })],
    {
      stdio: ['ignore', 2, 2, 'ipc'],
      execArgv: [],
      env: { ...process.env, NODE_OPTIONS: '', ...clocks.env(false) },
    },
  );
  t.teardown(() => child.kill('SIGKILL'));
  const address = await listening(child);
  let sent = 0;
  const send = async (count: number) => {
    await accept(address, sent, count);
    sent += count;
  };
  let shift = 0;
  for (const step of steps) {
    endpoint.isUp = false;
    const { refused } = endpoint;
    await send(BACKLOG);
    await until(() => endpoint.refused >= refused + 6);
    shift += step;
    clocks.shift(shift);
    await send(LATER);
    const asked = endpoint.refused;
    await until(() => endpoint.refused > asked);
    endpoint.isUp = true;
    const recovered = performance.now();
    await until(() => endpoint.taken.size === sent);
    t.comment(`clock set by ${step} s: all had arrived after ${Math.round(performance.now() - recovered)} ms`);
  }
  const died = once(child, 'exit');
  child.kill('SIGTERM');
  t.equal((await died)[0], 0, 'it stops gracefully');
  t.equal(endpoint.taken.size, sent, 'nothing is lost');
  t.same(
    [...endpoint.taken].filter(([, keys]) => new Set(keys).size > 1),
    [],
    'nothing came under two keys',
  );
  const opened = await openStore({ url: store.replace(':./', `:${folder}/`), maxQueued: 1 }, systemClock);
  t.same(await opened.deadLetters({ limit: 10 }), [], 'nothing expired');
  await opened.close();
}

async function until(isReached: () => boolean): Promise<void> {
  const startedAt = performance.now();
  while (!isReached()) {
    if (performance.now() - startedAt > PATIENCE) throw new Error(`Nothing moved for ${PATIENCE} ms.`);
    await setTimeout(50);
  }
}

async function accept(address: string, from: number, count: number): Promise<void> {
  const ids = Array.from({ length: count }, (_, index) => `m${from + index}`);
  const batch = ids.map((messageId) => ({ type: 'track', event: 'Bought', userId: `u${messageId}`, messageId }));
  const response = await fetch(`${address}/v1/batch`, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa('shop-key:')}`, 'content-type': 'application/json' },
    body: JSON.stringify({ batch }),
  });
  if (response.status !== 200) throw new Error(`answered ${response.status}`);
  await response.arrayBuffer();
}

function configuration(store: string, url: string): object {
  return {
    store,
    listen: { host: '127.0.0.1', port: 0 },
    network: { allow: ['127.0.0.0/8'] },
    sources: [{ id: 'shop', writeKey: 'shop-key' }],
    destinations: [{ name: 'crm', sources: ['shop'], sharedSecret: 's', webhooks: [{ url }] }],
  };
}

function listening(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    child.on('message', (message: object) => {
      if ('listening' in message) resolve(String(message.listening));
    });
    child.once('exit', (code, signal) => reject(new Error(`the service ended with ${code ?? signal}`)));
  });
}
