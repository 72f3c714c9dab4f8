import { createHmac, createSecretKey } from 'node:crypto';
import { Agent } from 'undici';
import { SECRET, type Work } from './work.ts';

const CONNECTIONS = 64;

const { port, calls }: Work = JSON.parse(process.argv[2] ?? '{}');
const agent = new Agent({ pipelining: 1 });
const key = createSecretKey(Buffer.from(SECRET));
const personas = { computation_class: 'audience', computation_id: 'aud_1', computation_key: 'customers', sequence: 1 };

async function post(user: number): Promise<void> {
  const userId = String(user).padStart(5, '0');
  const timestamp = '1998-07-01T00:00:00.000Z';
  const traits = { customers: true };
  const text = JSON.stringify({ version: 1, type: 'identify', userId, traits, timestamp, context: { personas } });
  const body = Buffer.from(text);
  const signature = createHmac('sha1', key).update(body).digest('hex');
  const headers = { 'content-type': 'application/json', 'x-signature': signature, 'idempotency-key': userId };
  const origin = `http://127.0.0.1:${port}`;
  const answer = await agent.request({ origin, path: '/hooks', method: 'POST', headers, body });
  await answer.body.dump();
  if (answer.statusCode !== 200) throw new Error(`answered ${answer.statusCode}`);
}

process.once('message', async () => {
  const startedAt = performance.now();
  let next = 0;
  const connection = async () => {
    for (let user = next++; user < calls; user = next++) await post(user);
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, connection));
  process.send?.({ calls: calls, seconds: (performance.now() - startedAt) / 1_000 });
});
process.send?.('ready');
