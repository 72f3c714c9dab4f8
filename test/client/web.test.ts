import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { promisify } from 'node:util';
import vm from 'node:vm';
import fc from 'fast-check';
import type { Browser, Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { byteLength, TextBatch } from '../../src/client/web/batch.ts';
import { startService } from '../collect/service.ts';
import { anyCharacter } from '../helpers/any-character.ts';
import { launchBrowser, withoutBrowser } from '../helpers/chromium.ts';
import { packed, root } from './packed.ts';

const app = await packed(t);

/** The package as a bundler makes it for a place; `rollcall` is the name of its exports. */
async function bundle(condition: string) {
  writeFileSync(path.join(app, 'entry.js'), "export * from '@rollcall/client';");
  const options = ['--bundle', '--minify', '--format=iife', '--global-name=rollcall', '--platform=neutral'];
  const files = ['entry.js', '--outfile=bundle.js', '--metafile=meta.json', '--log-level=error'];
  const place = [`--conditions=${condition}`, '--main-fields=module,main'];
  await promisify(execFile)(path.join(root, 'node_modules/.bin/esbuild'), [...options, ...place, ...files], {
    cwd: app,
  });
  const { inputs } = JSON.parse(readFileSync(path.join(app, 'meta.json'), 'utf8'));
  return { text: readFileSync(path.join(app, 'bundle.js'), 'utf8'), inputs: Object.keys(inputs) };
}

for (const condition of ['browser', 'worker', 'workerd', 'edge-light']) {
  t.test(`bundles for ${condition} without built-ins of Node or other packages`, async (t) => {
    const { text, inputs } = await bundle(condition);
    t.same(
      inputs.filter((input) => /node_modules\/(?!@rollcall\/)|dist\/node\//.test(input)),
      [],
    );
    t.notMatch(text, /node:|\brequire\(|\bBuffer\b/);
    t.ok(text.length < 30_000, `${text.length} characters`);
  });
}

/** The globals of an edge runtime, and nothing more. */
const edge = () => ({
  ...{ fetch, URL, AbortController, AbortSignal, TextEncoder, TextDecoder, crypto, console, btoa },
  ...{ setTimeout, clearTimeout },
});

t.test('sends to the real collection API from an edge runtime', async (t) => {
  const { text } = await bundle('edge-light');
  const service = startService(t);
  const endpoint = await service.url();
  const program = `(async () => {
    const client = new rollcall.Client('WK_shop', { endpoint: '${endpoint}' });
    client.track({ userId: 'u1', event: 'é 漢 😀', properties: { total: 30 } });
    client.identify({ userId: 'u2' });
    return client.close();
  })()`;
  const context = vm.createContext(edge());
  vm.runInContext(`${text};globalThis.rollcall = rollcall`, context);
  t.same(await vm.runInContext(program, context), { sent: 2, failed: 0, dropped: 0 });
  t.match(
    service.accepted.flatMap(({ source, messages }) => messages.map(({ body }) => [source, JSON.parse(String(body))])),
    [
      [
        'shop',
        { type: 'track', event: 'é 漢 😀', messageId: String, context: { library: { name: '@rollcall/client' } } },
      ],
      ['shop', { type: 'identify', userId: 'u2' }],
    ],
  );
});

t.test('refuses missing and unsupported options by name', async (t) => {
  const { text } = await bundle('edge-light');
  const context = vm.createContext(edge());
  vm.runInContext(`${text};globalThis.rollcall = rollcall`, context);
  const field = (options: string) =>
    vm.runInContext(`try { new rollcall.Client('K', ${options}) } catch (error) { error.field }`, context);
  t.equal(field('{}'), 'endpoint');
  t.equal(field("{ endpoint: 'http://x', spool: './spool' }"), 'spool');
  const inEnvironment = { ...edge(), process: { env: { ROLLCALL_ENDPOINT: 'http://127.0.0.1:1' } } };
  const other = vm.createContext(inEnvironment);
  t.equal(vm.runInContext(`${text};new rollcall.Client('K').queued`, other), 0);
});

t.test('makes valid ids on pages without https too', async (t) => {
  const { text } = await bundle('browser');
  const { getRandomValues } = crypto;
  const plain = { ...edge(), crypto: { getRandomValues: getRandomValues.bind(crypto) } };
  const context = vm.createContext({ ...plain, fetch: async () => ({ status: 400 }) });
  const id = await vm.runInContext(
    `${text};new Promise((resolve) => new rollcall.Client('K', { endpoint: 'http://x', flushAt: 1,
      onLoss: ({ messages }) => resolve(messages[0].messageId) }).identify({ userId: 'u' }))`,
    context,
  );
  t.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

t.test('counts bytes of UTF-8 and keeps every body within its limit', (t) => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: anyCharacter, maxLength: 60 })),
      fc.integer({ min: 150, max: 600 }),
      (texts, most) => {
        const batch = new TextBatch(0, 'ké"y', most);
        for (const text of texts.map((each) => JSON.stringify(each))) {
          if (byteLength(text) !== Buffer.byteLength(text)) return false;
          const isTaken = batch.add(text, byteLength(text) + 2);
          const would = Buffer.byteLength(batch.body(new Date(0).toISOString()));
          if (would > most && batch.count > 0) return false;
          if (!isTaken && would + byteLength(text) + (batch.count > 0 ? 2 : 0) <= most) return false;
        }
        return batch.messages().length === batch.count;
      },
    ),
  );
  t.end();
});

t.test('in Chromium', { skip: withoutBrowser }, async (t) => {
  const { text } = await bundle('browser');
  const browser = await launchBrowser();
  t.teardown(() => browser.close());

  t.test('sends queued messages when the user leaves the page', async (t) => {
    const { page, events, arrived } = await open(t, browser, text);
    await page.evaluate(`for (const event of ['a', 'b', 'c']) client.track({ userId: 'u', event })`);
    t.same(events(), []);
    await page.goto('about:blank');
    await arrived(3);
    t.same(events(), ['a', 'b', 'c']);
  });

  t.test('delivers requests in flight and queued messages when the user leaves', async (t) => {
    const { page, events, arrived } = await open(t, browser, text);
    const leave = `client.track({ userId: 'u', event: 'a' }); client.flush(); client.track({ userId: 'u', event: 'b' });
      location.href = 'about:blank'`;
    await page.evaluate(leave);
    // A context that is closed while its page is on its way may never be.
    await page.waitForURL('about:blank');
    await arrived(2);
    t.same(events().sort(), ['a', 'b']);
  });

  t.test('sends queued messages when the page is hidden, and continues', async (t) => {
    const { page, events, arrived } = await open(t, browser, text);
    await page.evaluate(`client.track({ userId: 'u', event: 'a' });
      Object.defineProperty(document, 'visibilityState', { value: 'hidden', configurable: true });
      document.dispatchEvent(new Event('visibilitychange')); delete document.visibilityState`);
    await arrived(1);
    t.same(await page.evaluate(`client.track({ userId: 'u', event: 'b' }), client.close()`), {
      ...{ sent: 2, failed: 0, dropped: 0 },
    });
    t.same(events(), ['a', 'b']);
  });

  t.test('continues after the page returns from the back/forward cache', async (t) => {
    const { page, events, lost } = await open(t, browser, text);
    const report = await page.evaluate(`for (const event of ['a', 'b']) client.track({ userId: 'u', event });
      dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }));
      client.track({ userId: 'u', event: 'c' }), client.close()`);
    t.same(report, { sent: 3, failed: 0, dropped: 0 });
    t.same([...new Set(events())], ['a', 'b', 'c']);
    t.same(await lost(), []);
  });

  t.test('splits more than a browser lets through, and delivers or reports each message', async (t) => {
    let answer = () => {};
    const held = new Promise<void>((resolve) => (answer = resolve));
    const { page, events, arrived, sizes, lost } = await open(t, browser, text, held);
    await page.evaluate(`for (let i = 0; i < 100; i++) {
        client.track({ userId: 'u', event: String(i), properties: { text: 'é'.repeat(1000) } });
      }`);
    await page.goto('about:blank');
    const left = await lost();
    answer();
    t.ok(left.length > 0 && left.length < 75, `${left.length} of 100 were not taken`);
    await arrived(100 - left.length);
    const all = [...events(), ...left].map(Number).sort((a, b) => a - b);
    t.same(all, [...Array(100).keys()]);
    t.equal(sizes.length, 2, 'the one under way, and what the browser takes beside it');
    t.ok(sizes.reduce((sum, size) => sum + size) <= 64_000, String(sizes));
  });

  t.test('delivers all of the same amount from a page that stays', async (t) => {
    const { page, events } = await open(t, browser, text);
    const report = await page.evaluate(`for (let i = 0; i < 100; i++) {
        client.track({ userId: 'u', event: String(i), properties: { text: 'é'.repeat(1000) } });
      }; client.close()`);
    t.same(report, { sent: 100, failed: 0, dropped: 0 });
    t.same(events(), [...Array(100).keys()].map(String));
  });

  t.test('sends requests without preflights', async (t) => {
    const { page, methods } = await open(t, browser, text);
    await page.evaluate(`client.track({ userId: 'u', event: 'a' }), client.close()`);
    t.same(methods, ['POST']);
  });
});

/** A page with a client that sends to a collection API of another origin, only when asked or when it ends. */
async function open(t: Test, browser: Browser, script: string, held?: Promise<void>) {
  const service = startService(t);
  const methods: string[] = [];
  const sizes: number[] = [];
  service.app.addHook('onRequest', async (request) => {
    methods.push(request.method);
    sizes.push(Number(request.headers['content-length']));
  });
  if (held) service.app.addHook('preHandler', () => held);
  let told = () => {};
  service.app.addHook('onResponse', async () => told());
  const endpoint = await service.url();
  const html = `<!doctype html><script>${script.replaceAll('</script', '<\\/script')}</script><script>
    const client = new rollcall.Client('WK_shop', { endpoint: '${endpoint}', flushAt: 1e6, flushAfter: 3600000,
      onLoss: ({ messages }) => {
        const before = JSON.parse(localStorage.getItem('lost') ?? '[]');
        localStorage.setItem('lost', JSON.stringify([...before, ...messages.map(({ event }) => event)]));
      } })</script>`;
  const server = http.createServer((_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(html));
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const context = await browser.newContext();
  t.teardown(async () => {
    await context.close();
    server.closeAllConnections();
    server.close();
  });
  const page: Page = await context.newPage();
  await page.goto(origin);
  const messages = () => service.accepted.flatMap((each) => each.messages);
  return {
    ...{ page, methods, sizes },
    events: () => messages().map(({ body }) => JSON.parse(String(body)).event as string),
    async arrived(count: number) {
      while (messages().length < count) await new Promise<void>((resolve) => (told = resolve));
    },
    /** Messages that the page said were lost, read by the next one. */
    async lost(): Promise<string[]> {
      await page.goto(origin);
      return JSON.parse(await page.evaluate(`localStorage.getItem('lost') ?? '[]'`));
    },
  };
}
