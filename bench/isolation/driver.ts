/** One run of the service, in a process of its own: so many healthy destinations, with or without bad ones or bad messages. */
import { once } from 'node:events';
import { join } from 'node:path';
import { createAccept } from '../../src/accept.ts';
import { createAgent } from '../../src/deliver/http/agent.ts';
import { Worker } from '../../src/deliver/worker.ts';
import { type Destination, endpointId } from '../../src/destination.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { silentLogger } from '../../src/kernel/log.ts';
import { openStore } from '../../src/store/open.ts';
import { itemMaker, messageId } from '../forward/work.ts';

const item = itemMaker(0.8);

export interface Orders {
  readonly port: number;
  readonly folder: string;
  readonly healthy: number;
  readonly isBad: boolean;
  /** Milliseconds until a healthy one answers. */
  readonly latency: number;
  /** Percent of the messages that are always answered 500, and of the answers that are 503 whatever the message. */
  readonly failing: number;
  readonly overloaded: number;
  /** Messages per second to the healthy ones; 0 to find out how many there can be. */
  readonly rate: number;
  readonly seconds: number;
}

export interface Result {
  readonly perSecond: number;
  readonly p50: number;
  readonly p95: number;
}

const orders = JSON.parse(process.argv[2] ?? '{}') as Orders;
const { port, folder, healthy, isBad, latency, failing, overloaded, rate, seconds } = orders;
/** Milliseconds between two rounds of messages, and messages on their way when looking for the limit. */
const TICK = 10;
const OUTSTANDING = 2_000;

function destination(name: string, path: string): Destination {
  const url = `http://127.0.0.1:${port}/${path}`;
  return {
    name,
    enabled: true,
    sources: [name],
    secrets: ['a shared secret'],
    endpoints: [{ id: endpointId(name, url), url, headers: {} }],
    require: 'any',
    ratePerSecond: null,
  };
}

const names = Array.from({ length: healthy }, (_, index) => `d${index}`);
const bad = isBad ? ['hangs', 'fails'] : [];
const destinations = [
  ...names.map((name) => destination(name, `ok/${latency}/${overloaded}/${name}`)),
  ...bad.map((name) => destination(name, name)),
];
const url = `sqlite:${join(folder, 'rollcall.db')}`;
const store = await openStore({ url, maxQueued: 10_000_000 }, systemClock);
const agent = createAgent({ allow: ['127.0.0.0/8'], ca: [], proxy: null });
const acceptedAt = new Map<string, number>();
const latencies: number[] = [];
let measuring = false;
const worker = new Worker({
  store,
  clock: systemClock,
  agent,
  serviceName: 'Rollcall',
  destinations,
  attemptRetention: () => 86_400_000,
  removedAfter: () => 86_400_000,
  log: silentLogger,
  onSettled({ claim, verdict }) {
    const at = acceptedAt.get(claim.messageId);
    if (at === undefined || verdict.kind !== 'delivered') return;
    acceptedAt.delete(claim.messageId);
    if (measuring) latencies.push(performance.now() - at);
  },
});
await worker.start();
const accept = createAccept(store, () => destinations, worker);

let sent = 0;
let turn = 0;
/** Messages for the next destinations in turn; each bad one gets as much as a healthy one. */
function send(count: number): void {
  const perName = new Map<string, number>();
  for (let each = 0; each < count; each += 1) {
    const name = names[turn % names.length] ?? '';
    if (turn % names.length === 0) for (const other of bad) perName.set(other, (perName.get(other) ?? 0) + 1);
    perName.set(name, (perName.get(name) ?? 0) + 1);
    turn += 1;
  }
  for (const [name, share] of perName) {
    const isHealthy = !bad.includes(name);
    const messages = Array.from({ length: share }, () => {
      sent += 1;
      const id = messageId(sent);
      const { body } = item(sent);
      const message = { type: 'track' as const, messageId: id, userId: null, integrations: null, body };
      // Only what can be delivered is counted.
      if (sent % 100 < failing) return { ...message, body: `{"fails":true,${body.slice(1)}` };
      if (isHealthy) acceptedAt.set(id, performance.now());
      return message;
    });
    void accept(name, messages);
  }
}

/** Keeps the pace for some seconds, whatever becomes of the messages. */
async function drive(forSeconds: number): Promise<void> {
  const start = performance.now();
  let due = 0;
  for (;;) {
    const elapsed = performance.now() - start;
    if (elapsed >= forSeconds * 1_000) return;
    const wanted = rate > 0 ? Math.floor((elapsed / 1_000) * rate) - due : OUTSTANDING - acceptedAt.size;
    if (wanted > 0) send(wanted);
    due += Math.max(0, wanted);
    await new Promise((resolve) => setTimeout(resolve, TICK));
  }
}

// With and without bad ones alike: time to find them out, and for windows to grow, before the clock runs.
await drive(rate > 0 || latency > 0 ? 7 : 2);
measuring = true;
const startedAt = performance.now();
await drive(seconds);
measuring = false;
const perSecond = latencies.length / ((performance.now() - startedAt) / 1_000);
latencies.sort((a, b) => a - b);
const at = (share: number) => latencies[Math.floor(latencies.length * share)] ?? Number.NaN;
process.send?.({ perSecond, p50: at(0.5), p95: at(0.95) } satisfies Result);
await once(process, 'message');
process.exit();
