import { AsyncLocalStorage } from 'node:async_hooks';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import { createReceiver, type EdgeOptions, type EdgeReceiver } from '../../receivers/edge.ts';
import type { ReceiverClock } from '../../receivers/index.ts';
import { sqliteStore } from '../../receivers/sqlite.ts';
import { signed, webhook } from '../../receivers/testing.ts';
import { clean } from './helpers/clean.ts';
import { manualClock, signal } from './helpers/clock.ts';
import { silent } from './helpers/hosts.ts';

const edge = new URL('../../receivers/edge.ts', import.meta.url);

t.test('loads nothing from Node on edge runtimes', async (t) => {
  const seen = new Set<string>();
  const outside = new Set<string>();
  const visit = (file: URL) => {
    if (seen.has(file.href)) return;
    seen.add(file.href);
    const code = readFileSync(file, 'utf8');
    for (const [, clause = '', name = ''] of code.matchAll(/^(import|export) (?!type\b)[^;]*?from '([^']+)';/gms)) {
      if (name.startsWith('.')) visit(new URL(name, file));
      else outside.add(`${clause} ${name}`);
    }
  };
  visit(edge);
  t.ok(seen.size > 10);
  t.same([...outside], ['import zod']);
});

/** A program without `Buffer`, `process` and a quick way to wait for the next turn. */
const program = `
import { readFileSync } from 'node:fs';
const requests = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const hasStub = process.argv[3] === 'stub';
const { log } = console;
const { Buffer } = globalThis;
for (const name of ['Buffer', 'process', 'setImmediate', 'global']) delete globalThis[name];
if (hasStub) globalThis.setImmediate = () => { throw new Error('not supported in the Edge Runtime'); };
// Cloudflare refuses these until there is a request.
const refused = [[crypto, 'randomUUID'], [crypto, 'getRandomValues'], [globalThis, 'setTimeout'], [globalThis, 'fetch']];
const given = refused.map(([place, name]) => place[name]);
for (const [place, name] of refused) place[name] = () => { throw new Error(name + ' before the first request'); };
const { createReceiver } = await import(${JSON.stringify(edge.href)});
// Node's own fetch can't do without; the kit has not seen it.
globalThis.Buffer = Buffer;
const seen = [];
const hooks = createReceiver({
  secret: 'shhh', signing: 'both', log: { warn() {}, error(fields) { log(String(fields.err)); } },
  on: { any: async (message, { rawBody }) => void seen.push([message.type, rawBody instanceof Uint8Array && rawBody.length > 50]) },
});
for (const [i, [place, name]] of refused.entries()) place[name] = given[i];
const statuses = [];
for (const { headers, body } of requests) {
  const response = await hooks.handle(new Request('https://edge.example/hooks', { method: 'POST', headers, body }));
  statuses.push([response.status, Object.keys(await response.json()).join()]);
}
log(JSON.stringify({ statuses, seen }));
`;

for (const setImmediate of ['absent', 'stub'])
  t.test(`works without Buffer and process, and with setImmediate ${setImmediate}`, async (t) => {
    const { batch } = JSON.parse(`{"batch":${JSON.stringify(Array.from({ length: 600 }, () => webhook('track')))}}`);
    const envelope = JSON.stringify({
      batch,
      keys: batch.map((_: unknown, i: number) => `k${i}`),
      sentAt: new Date().toISOString(),
    });
    const requests = [
      signed(webhook('track'), 'shhh'),
      signed(webhook('delete'), 'shhh', { signing: 'standard' }),
      signed(webhook('track'), 'another'),
      signed(webhook('track'), 'another', { signing: 'standard' }),
      signed('\uFEFF{}', 'shhh'),
      signed(envelope, 'shhh', { signing: 'both' }),
    ];
    const folder = t.testdir({ 'program.mjs': program });
    const file = join(folder, 'requests.json');
    writeFileSync(file, JSON.stringify(requests));
    const { stdout } = await clean(process.execPath, [join(folder, 'program.mjs'), file, setImmediate]);
    const { statuses, seen } = JSON.parse(stdout);
    t.same(statuses, [
      [200, 'received'],
      [200, 'received'],
      [401, 'code,message'],
      [401, 'code,message'],
      [400, 'code,message'],
      [200, 'received'],
    ]);
    t.equal(seen.length, 602);
    t.ok(seen.every(([, isBytes]: [string, boolean]) => isBytes));
  });

t.test('keeps the deadline even if nothing else keeps the process alive, as in a function', async (t) => {
  const body = JSON.stringify(webhook('track'));
  const folder = t.testdir({
    'program.mjs': `
      import { createReceiver } from ${JSON.stringify(edge.href)};
      const hooks = createReceiver({ secret: false, deadline: 50, on: { track: () => new Promise(() => {}) } });
      const headers = { 'content-type': 'application/json' };
      const request = new Request('http://app/', { method: 'POST', headers, body: ${JSON.stringify(body)} });
      console.log((await hooks.handle(request)).status);
    `,
  });
  const { stdout } = await clean(process.execPath, [join(folder, 'program.mjs')]);
  t.equal(stdout, '503\n');
});

/** A runtime that ends the timers of a request with it, as Cloudflare's does, unless it was asked to wait. */
function runtime() {
  const manual = manualClock();
  const current = new AsyncLocalStorage<Set<() => void>>();
  const clock: ReceiverClock = {
    now: manual.now,
    after(ms, callback, options) {
      const cancel = manual.after(ms, callback, options);
      current.getStore()?.add(cancel);
      return cancel;
    },
  };
  async function request(hooks: EdgeReceiver, body: unknown, waits: boolean): Promise<number> {
    const timers = new Set<() => void>();
    const waited: Promise<unknown>[] = [];
    const context = waits ? { waitUntil: (work: Promise<unknown>) => void waited.push(work) } : { params: {} };
    const given = new Request('https://edge.example/hooks', { method: 'POST', ...signed(body, 'shhh') });
    const { status } = await current.run(timers, () => hooks.handle(given, context));
    void Promise.all(waited).then(() => {
      for (const cancel of timers) cancel();
    });
    return status;
  }
  return { ...manual, clock, request };
}

t.test('gives each request its own deadline on platforms whose timers end with the request', async (t) => {
  const { clock, request, advance } = runtime();
  const works = signal();
  let begun = signal();
  const hooks = createReceiver({
    secret: 'shhh',
    log: silent,
    clock,
    on: {
      track: ({ event }) => {
        begun.resolve();
        return event === 'quick' ? Promise.resolve() : works.promise;
      },
    },
  });
  t.equal(await request(hooks, webhook('track', { event: 'quick' }), false), 200);
  for (const userId of ['u1', 'u2']) {
    begun = signal();
    const answer = request(hooks, webhook('track', { event: 'slow', userId }), false);
    await begun.promise;
    advance(4_500);
    t.equal(await answer, 503, userId);
  }
  works.resolve();
});

t.test('asks the platform to wait for a handler that is too late for the answer', async (t) => {
  const { clock, request, advance } = runtime();
  const begun = signal();
  const works = signal();
  const done = signal();
  const hooks = createReceiver({
    secret: 'shhh',
    log: silent,
    clock,
    on: {
      async track() {
        begun.resolve();
        await works.promise;
        done.resolve();
      },
    },
  });
  const body = webhook('track');
  const waited: Promise<unknown>[] = [];
  const given = () => new Request('https://edge.example/hooks', { method: 'POST', ...signed(body, 'shhh') });
  const answer = hooks.handle(given(), { waitUntil: (work: Promise<unknown>) => waited.push(work) });
  t.equal(waited.length, 1, 'before anything was waited for');
  await begun.promise;
  advance(4_500);
  t.equal((await answer).status, 503);
  works.resolve();
  await Promise.all([done.promise, ...waited]);
  t.equal(await request(hooks, body, false), 200);
});

t.test('gives up the remains of a request that the platform has ended', async (t) => {
  const { clock, request, advance } = runtime();
  let begun = signal();
  let count = 0;
  const hooks = createReceiver({
    secret: 'shhh',
    log: silent,
    clock,
    on: {
      track() {
        begun.resolve();
        count += 1;
        return count === 1 ? new Promise(() => {}) : undefined;
      },
    },
  });
  const body = webhook('track');
  const first = request(hooks, body, false);
  await begun.promise;
  advance(4_500);
  t.equal(await first, 503);
  begun = signal();
  let isAnswered = false;
  const joined = request(hooks, body, false).finally(() => (isAnswered = true));
  while (!isAnswered) {
    advance(500);
    await turn();
  }
  t.equal(await joined, 503, 'it may still be at work');
  advance(60_000);
  t.equal(await request(hooks, body, false), 200);
  t.equal(count, 2);
});

t.test("refuses ack: 'stored', because nothing would process what is stored", async (t) => {
  const store = sqliteStore(':memory:');
  const options = { secret: 'shhh', on: {}, ack: 'stored', store } as unknown as EdgeOptions;
  t.throws(() => createReceiver(options), { name: 'TypeError', message: /ack/ });
  store.close();
});

t.test('names a sender alike on both runtimes, so that they may share a store', async (t) => {
  const keys: string[] = [];
  const store = {
    lease: 1_000,
    begin: ({ key }: { key: string | undefined }) => {
      keys.push(String(key));
      return 'new' as const;
    },
    renew: () => true,
    done: () => true,
    release() {},
  };
  const options = { secret: ['whsec_c2hoaA==', 'shhh'], name: 'crm', on: { any() {} }, log: silent, store };
  const { createReceiver: onNode } = await import('../../receivers/index.ts');
  for (const make of [createReceiver, onNode]) {
    for (const secret of options.secret) {
      const { headers, body } = signed(
        webhook('track', { timestamp: '2026-01-01T00:00:00.000Z', messageId: 'm' }),
        secret,
      );
      await make(options).handle(new Request('https://edge.example/hooks', { method: 'POST', headers, body }));
    }
  }
  t.same(keys.slice(0, 2), keys.slice(2));
  t.equal(new Set(keys).size, 2);
});

t.test('reads a secret of the standard as the sender does, however its base64 is written', async (t) => {
  const texts = ['c2hoaA==', 'c2hoaA', 'c2ho_-__', 'not base64!', 'my-secret_1', 'c2h=hoaA', 'c2hoa'];
  for (const secret of texts.map((text) => `whsec_${text}`)) {
    const hooks = createReceiver({ secret, signing: 'both', on: {}, log: silent });
    for (const signing of ['standard', 'x-signature'] as const) {
      const { headers, body } = signed(webhook('track'), secret, { signing });
      const answer = await hooks.handle(new Request('http://app/', { method: 'POST', headers, body }));
      t.equal(answer.status, 200, `${secret}, ${signing}`);
    }
  }
});

t.test('refuses a secret that is empty or not text at once', async (t) => {
  for (const secret of ['', 'whsec_', 7 as unknown as string]) {
    t.throws(() => createReceiver({ secret, on: {} }), TypeError);
  }
});
