import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pino } from 'pino';
import t from 'tap';
import { App } from '../../src/app.ts';
import { parseConfig } from '../../src/config/load.ts';
import { freePort } from '../helpers/free-port.ts';

const CALLS = 160;

/** Takes everything, in the order in which it came; `taken` resolves at so many. */
function receiver() {
  const events: string[] = [];
  const waiting: { readonly at: number; readonly resolve: () => void }[] = [];
  const server = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk) => {
      text += String(chunk);
    });
    request.on('end', () => {
      events.push((JSON.parse(text) as { event: string }).event);
      response.end();
      for (const { at, resolve } of waiting) if (new Set(events).size >= at) resolve();
    });
  });
  return {
    events,
    listen: (port = 0) =>
      new Promise<number>((resolve) => {
        server.listen(port, '127.0.0.1', () => resolve((server.address() as AddressInfo).port));
      }),
    taken: (at: number) => new Promise<void>((resolve) => waiting.push({ at, resolve })),
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

t.test(
  'accepts every call while the queue of a dead destination is full, and delivers to the healthy one at once',
  async (t) => {
    const good = receiver();
    t.teardown(() => good.close());
    const goodPort = await good.listen();
    // Nobody listens there, for now.
    const badPort = await freePort();
    const lines: string[] = [];
    const text = JSON.stringify({
      store: { url: 'sqlite:./rollcall.db', maxQueued: 100 },
      listen: { host: '127.0.0.1', port: 0 },
      network: { allow: ['127.0.0.0/8'] },
      sources: [{ id: 'shop', writeKey: 'key' }],
      destinations: [
        { name: 'secret-name', sources: ['shop'], sharedSecret: 's', webhookUrl: `http://127.0.0.1:${badPort}/` },
        { name: 'mail', sources: ['shop'], sharedSecret: 's', webhookUrl: `http://127.0.0.1:${goodPort}/` },
      ],
    });
    const config = parseConfig(text, { file: 'rollcall.yaml', folder: t.testdir(), env: {} });
    const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) });
    const app = await App.create(config, { log });
    t.teardown(() => app.close());
    await app.start({ collect: true, schedules: false });

    const all = good.taken(CALLS);
    for (let call = 0; call < CALLS; call += 1) {
      const response = await fetch(`${app.address}/v1/track`, {
        method: 'POST',
        headers: { authorization: `Basic ${btoa('key:')}` },
        body: JSON.stringify({ event: `e${call}`, userId: 'u' }),
      });
      const answer = await response.text();
      if (response.status !== 200 || answer.includes('secret')) t.fail(`${response.status} ${answer}`);
    }
    await all;
    const counters = async () => (await app.store.backlog()).find(({ destination }) => destination === 'secret-name');
    const { pending = 0, heldOut = 0 } = (await counters()) ?? {};
    t.equal(pending + heldOut, CALLS);
    t.ok(heldOut >= 40, `${heldOut} are held out; what was tried does not count`);
    const letters = await app.store.deadLetters({ reason: 'queue_full', limit: 1_000 });
    t.equal(letters.length, heldOut);

    // It comes back, and a person does not want to wait for the next probe.
    const back = receiver();
    t.teardown(() => back.close());
    const late = back.taken(CALLS);
    await back.listen(badPort);
    for (const state of await app.store.endpoints()) {
      await app.store.markEndpoint({ ...state, pausedAt: null, deadSince: null });
    }
    await late;
    t.equal(new Set(back.events).size, CALLS);
    const outOf = new Set(letters.map(({ body }) => (JSON.parse(body) as { event: string }).event));
    const firstOf = [...new Set(back.events)].findIndex((event) => outOf.has(event));
    t.ok(firstOf >= 20, `${firstOf} that were queued came before any that was held out`);
    t.ok(
      lines.some((line) => line.includes('The queue is full')),
      'the log says so',
    );
  },
);
