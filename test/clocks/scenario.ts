import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import type { Test } from 'tap';
import { systemClock } from '../../src/kernel/clock.ts';
import { openStore } from '../../src/store/open.ts';
import { program } from '../helpers/programs.ts';
import { FakeClocks } from './faketime.ts';

const BACKLOG = 100;
const LATER = 20;
const MEMBERS = 20;
/** Time that a recovered endpoint has to get a backlog that was tried a few times, in milliseconds: far from an hour. */
const PATIENCE = 300_000;

interface Body {
  readonly messageId: string;
  readonly userId: string;
  readonly traits?: { readonly regulars: boolean };
  readonly context?: { readonly personas?: { readonly sequence: number } };
}

/** An endpoint that is down while told so, and writes down what it took. */
class Endpoint {
  isUp = true;
  refused = 0;
  readonly taken = new Map<string, string[]>();
  /** Each user's membership, and the sequence that it came with. */
  readonly members = new Map<string, { isMember: boolean; sequence: number }>();
  backwards = 0;
  private readonly server = createServer((request, response) => {
    if (!this.isUp) {
      this.refused += 1;
      response.destroy();
      return;
    }
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      this.take(JSON.parse(Buffer.concat(chunks).toString()) as Body, String(request.headers['idempotency-key']));
      response.end();
    });
  });

  private take({ messageId, userId, traits, context }: Body, key: string): void {
    if (context?.personas && traits) {
      const { sequence } = context.personas;
      if (sequence < (this.members.get(userId)?.sequence ?? 0)) this.backwards += 1;
      this.members.set(userId, { isMember: traits.regulars, sequence });
    } else this.taken.set(messageId, [...(this.taken.get(messageId) ?? []), key]);
  }

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

export interface ClockOptions {
  readonly store?: string;
  /** How fast the wall clock runs. */
  readonly speed?: number;
}

/**
 * The real service, as a process whose wall clock is set by `steps` (in seconds) one after the other, with a backlog and
 * another membership each time.
 */
export async function setClocks(
  t: Test,
  steps: readonly number[],
  { store = 'sqlite:./rollcall.db', speed = 1 }: ClockOptions = {},
): Promise<void> {
  const folder = t.testdir({});
  const endpoint = new Endpoint();
  const url = await endpoint.listen();
  t.teardown(() => endpoint.close());
  const config = join(folder, 'rollcall.yaml');
  writeFileSync(config, JSON.stringify(configuration(store, url)));
  const clocks = new FakeClocks(join(folder, 'clocks'), speed);
  const child = fork(
    program('test/crash/service.ts'),
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
  const membersOf = (day: number) => Array.from({ length: MEMBERS }, (_, index) => `u${index + day}`);
  const sync = async (day: number) => {
    writeFileSync(join(folder, 'members.csv'), ['user_id', ...membersOf(day)].join('\n'));
    const synced = once(child, 'message');
    child.send('sync');
    t.match(await synced, [{ synced: [{ error: null }] }]);
  };
  const areCurrent = (day: number) => {
    const current = new Set(membersOf(day));
    const told = [...endpoint.members].filter(([, { isMember }]) => isMember);
    return told.length === current.size && told.every(([user]) => current.has(user));
  };
  let shift = 0;
  for (const [day, step] of steps.entries()) {
    endpoint.isUp = false;
    const { refused } = endpoint;
    await send(BACKLOG);
    await sync(2 * day);
    await until(() => endpoint.refused >= refused + 6);
    shift += step;
    clocks.shift(shift);
    await send(LATER);
    // Newer changes of the same people, by a clock that may say that they are older.
    await sync(2 * day + 1);
    const asked = endpoint.refused;
    await until(() => endpoint.refused > asked);
    endpoint.isUp = true;
    const recovered = performance.now();
    await until(() => endpoint.taken.size === sent && areCurrent(2 * day + 1));
    t.comment(`clock set by ${step} s: all had arrived after ${Math.round(performance.now() - recovered)} ms`);
  }
  const died = once(child, 'exit');
  child.kill('SIGTERM');
  t.equal((await died)[0], 0, 'it stops gracefully');
  t.equal(endpoint.taken.size, sent, 'nothing is lost');
  t.equal(endpoint.backwards, 0, 'no membership change came after a newer one');
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
    sources: [
      { id: 'shop', writeKey: 'shop-key' },
      { id: 'personas', writeKey: 'personas-key' },
    ],
    destinations: [{ name: 'crm', sources: ['shop', 'personas'], sharedSecret: 's', webhooks: [{ url }] }],
    engines: { lake: { type: 'duckdb', path: './audiences.duckdb' } },
    audiences: [
      {
        name: 'Regulars',
        source: 'personas',
        sql: "select user_id from read_csv('members.csv', all_varchar = true)",
      },
    ],
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
