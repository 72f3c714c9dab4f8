/** Sends events at a steady rate over a few connections; tells how late it was. */
import { Pool } from 'undici';

const { url, rate, seconds, people, changing, users } = JSON.parse(process.argv[2] ?? '{}') as {
  url: string;
  rate: number;
  seconds: number;
  people: number;
  /** The part of the events that a definition asks for and that makes a change. */
  changing: number;
  /** Users of a history, who go on ordering. */
  users: number;
};
const BATCH = 50;
/** One event in so many is an order of somebody in the history. */
const ORDERS = 20;
const pool = new Pool(url, { connections: 8, pipelining: 1 });
const headers = { authorization: `Basic ${btoa('key:')}`, 'content-type': 'application/json' };
let sent = 0;

/** Two of the same event in a row change one membership: every second one of these makes a change. */
function event(): object {
  const number = sent;
  sent += 1;
  if (number % ORDERS === 1) return order(number);
  const isAsked = number % Math.round(1 / (2 * changing)) === 0;
  const turn = Math.floor(number * changing);
  const userId = isAsked ? `c${process.pid}-${Math.floor(turn / 50)}` : `u${number % people}`;
  const name = isAsked ? `Event ${turn % 50}` : `Page ${number % 20}`;
  return {
    ...{ type: 'track', event: name, userId, messageId: `${process.pid}-${number}` },
    properties: { total: number % 100, currency: 'EUR', sku: `sku-${number % 1_000}` },
  };
}

function order(number: number): object {
  const userId = `user_${(number * 7919) % users}`;
  const properties = { orderId: `o-${number}`, total: number % 100, currency: 'EUR' };
  return { type: 'track', event: 'Order Completed', userId, messageId: `${process.pid}-${number}`, properties };
}

process.send?.('ready');
const startedAt = performance.now();
let latest = 0;
const running = new Set<Promise<void>>();
for (let batch = 0; batch * BATCH < rate * seconds; batch += 1) {
  const due = startedAt + (batch * BATCH * 1_000) / rate;
  const wait = due - performance.now();
  if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
  latest = Math.max(latest, performance.now() - due);
  const body = JSON.stringify({ batch: Array.from({ length: BATCH }, event) });
  const posting: Promise<void> = pool
    .request({ path: '/v1/batch', method: 'POST', headers, body })
    .then(async (answer) => {
      await answer.body.dump();
      if (answer.statusCode !== 200) throw new Error(`${answer.statusCode}`);
      running.delete(posting);
    });
  running.add(posting);
  if (running.size >= 32) await Promise.race(running);
}
await Promise.all(running);
const { user, system } = process.cpuUsage();
process.send?.({ sent, ms: performance.now() - startedAt, latest, cpu: user + system });
await pool.close();
