/**
 * One client library in a process of its own: `driver.mjs NAME MODE PORT EVENTS`, or `driver.mjs idle`, which
 * loads none. Plain JavaScript, since stripping types takes more memory than the clients do.
 */
import { readFileSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';

const [name, mode, port, events] = process.argv.slice(2);
const endpoint = `http://127.0.0.1:${port}`;
/** A tight loop ends after this time at the latest: RudderStack's calls take longer the more are queued. */
const LONGEST_LOOP = 20_000;
/** The same for all: the usual 10 s would end the run of a client that leaves its last batch to the timer. */
const FLUSH_INTERVAL = 500;
/** Without progress for so long, what has not arrived is lost. */
const PATIENCE = 5_000;

let settled = 0;
let reported = 0;
const callback = (error) => {
  settled++;
  if (error) reported++;
};

/** Each as its documentation shows it: `track`, how many calls are `done`, and `flush`, called until all are. */
const contenders = {
  async rollcall() {
    const { Client } = await import('../../src/client/dist/index.js');
    let calls = 0;
    const onLoss = ({ count }) => {
      reported += count;
    };
    const client = new Client('KEY', { endpoint, flushAfter: FLUSH_INTERVAL, onLoss });
    return {
      track(message) {
        calls++;
        client.track(message);
      },
      done: () => calls - client.queued,
      flush: () => client.flush(),
    };
  },
  async segment() {
    const { Analytics } = await import('@segment/analytics-node');
    const client = new Analytics({ writeKey: 'KEY', host: endpoint, flushInterval: FLUSH_INTERVAL });
    client.on('error', () => {});
    return {
      track: (message) => client.track(message, callback),
      done: () => settled,
      flush: () => client.closeAndFlush({ timeout: 60_000 }),
    };
  },
  async legacy() {
    const { default: Analytics } = await import('analytics-node');
    const client = new Analytics('KEY', { host: endpoint, flushInterval: FLUSH_INTERVAL, errorHandler: () => {} });
    return {
      track: (message) => client.track(message, callback),
      done: () => settled,
      flush: () => client.flush(),
    };
  },
  async rudderstack() {
    const { default: Analytics } = await import('@rudderstack/rudder-sdk-node');
    const options = { dataPlaneUrl: endpoint, flushInterval: FLUSH_INTERVAL, errorHandler: () => {} };
    const client = new Analytics('KEY', options);
    return {
      track: (message) => client.track(message, callback),
      done: () => settled,
      flush: () => client.flush(),
    };
  },
};

function message(i) {
  return {
    userId: `user-${i % 1000}`,
    event: 'Order Completed',
    properties: { orderId: `order-${i}`, total: i / 8, currency: 'EUR', items: [{ sku: 'a-1', quantity: 1 }] },
  };
}

async function call(client) {
  const start = performance.now();
  let calls = 0;
  for (; calls < Number(events); calls++) {
    if (mode === 'paced') {
      if (calls % 20 === 0) await setImmediate();
    } else if (calls % 100 === 0 && performance.now() - start > LONGEST_LOOP) break;
    client.track(message(calls));
  }
  return calls;
}

/** Flushes until everything is done, or nothing has been for a while. */
async function finish(client, calls) {
  let done = -1;
  let since = performance.now();
  while (client.done() < calls && performance.now() - since < PATIENCE) {
    if (client.done() > done) {
      done = client.done();
      since = performance.now();
    }
    await client.flush();
    await setImmediate();
  }
}

async function run() {
  const cpu = process.cpuUsage();
  const client = await contenders[name]();
  const started = Date.now();
  const calls = await call(client);
  await finish(client, calls);
  const { user, system } = process.cpuUsage(cpu);
  return { calls, reported, started, cpuMicros: user + system };
}

const peakMemoryMb = () => Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync('/proc/self/status', 'utf8'))[1]) / 1024;

process.on('message', async () => {
  const figures = name === 'idle' ? {} : await run();
  process.send({ ...figures, peakMemoryMb: peakMemoryMb() });
});
process.send('ready');
