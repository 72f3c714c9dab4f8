import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { createReceiver } from '../../receivers/edge.ts';
import { signed, webhook } from '../../receivers/testing.ts';
import { clean } from './helpers/clean.ts';
import { silent } from './helpers/hosts.ts';

const edge = new URL('../../receivers/edge.ts', import.meta.url);

t.test('nothing that an edge runtime loads comes from Node', async (t) => {
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

/** What runs where there is neither `Buffer` nor `process`, nor a quick way to wait for the next turn. */
const program = `
import { readFileSync } from 'node:fs';
const requests = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const { log } = console;
const { Buffer } = globalThis;
for (const name of ['Buffer', 'process', 'setImmediate', 'global']) delete globalThis[name];
const { createReceiver } = await import(${JSON.stringify(edge.href)});
// Node's own fetch can't do without; the kit has not seen it.
globalThis.Buffer = Buffer;
const seen = [];
const hooks = createReceiver({
  secret: 'shhh', signing: 'both', log: { warn() {}, error(fields) { log(String(fields.err)); } },
  on: { any: (message, { rawBody }) => void seen.push([message.type, rawBody instanceof Uint8Array && rawBody.length > 50]) },
});
const statuses = [];
for (const { headers, body } of requests) {
  const response = await hooks.handle(new Request('https://edge.example/hooks', { method: 'POST', headers, body }));
  statuses.push([response.status, Object.keys(await response.json()).join()]);
}
log(JSON.stringify({ statuses, seen }));
`;

t.test('it works where there is neither Buffer nor process', async (t) => {
  const { batch } = JSON.parse(`{"batch":${JSON.stringify(Array.from({ length: 200 }, () => webhook('track')))}}`);
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
  const { stdout } = await clean(process.execPath, [join(folder, 'program.mjs'), file]);
  const { statuses, seen } = JSON.parse(stdout);
  t.same(statuses, [
    [200, 'received'],
    [200, 'received'],
    [401, 'code,message'],
    [401, 'code,message'],
    [400, 'code,message'],
    [200, 'received'],
  ]);
  t.equal(seen.length, 202);
  t.ok(seen.every(([, isBytes]: [string, boolean]) => isBytes));
});

t.test('both runtimes name a sender alike, so that they may share a store', async (t) => {
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

t.test('a secret that is no text, or empty, is refused at once', async (t) => {
  for (const secret of ['', 'whsec_', 7 as unknown as string]) {
    t.throws(() => createReceiver({ secret, on: {} }), TypeError);
  }
});
