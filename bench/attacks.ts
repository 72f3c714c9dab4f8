/**
 * The price that an honest client pays for requests without a write key, and for crowds. It sends a hundred small batches a
 * second while somebody else attacks: half of them plain with the key in the head, half with gzip and the key in the body.
 * `refused` counts its answers that are not 200.
 *
 * The attacker runs on the same processors, and takes from the honest client what no service could give back. So each attack is
 * also run `elsewhere`, against a server that takes every request and does nothing: what is left between the two is the service's
 * doing. The law speaks of `none`, where nobody attacks anything.
 */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { compare, DEPLOYED, type Figures, peakMemoryMb, startPart } from './harness.ts';

const every = 10;
const count = 800;
/** Calls before the attack, until V8 has compiled what serves them, and paced ones beside it, up to after the first crowd. */
const calls = 20_000;
const warmUp = 300;

async function run(attack: string, isElsewhere = false): Promise<Figures> {
  const folder = await mkdtemp(join(import.meta.dirname, '.attacks-'));
  const args = ['rollcall', join(folder, 'r.db')];
  const server = await startPart(new URL('collect/server.ts', import.meta.url), args, DEPLOYED);
  const port = server.ready as number;
  const agent = new Agent({ keepAlive: true, maxSockets: 16 });
  const sink = isElsewhere ? await startPart(new URL('attacks/sink.ts', import.meta.url)) : null;
  const attacked = String(sink === null ? port : sink.ready);
  await warm(port, agent);
  const attacker = await startPart(new URL('attacks/attacker.ts', import.meta.url), [attack, attacked]);
  try {
    await honest(port, agent, warmUp);
    const { latencies, refused } = await honest(port, agent, count);
    const sorted = latencies.toSorted((a, b) => a - b);
    const at = (share: number) => sorted[Math.floor(sorted.length * share)]!;
    return { p50Ms: at(0.5), p99Ms: at(0.99), refused, memoryMb: peakMemoryMb(server.pid) };
  } finally {
    await attacker.stop();
    await sink?.stop();
    agent.destroy();
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

async function warm(port: number, agent: Agent): Promise<void> {
  let left = calls;
  const go = async () => {
    for (; left > 0; left -= 1) await call(port, agent, left % 2 === 0);
  };
  await Promise.all(Array.from({ length: agent.maxSockets }, go));
}

/** Whether or not the one before is answered: who waits in line does not come less often. */
async function honest(port: number, agent: Agent, calls: number) {
  const latencies: number[] = [];
  let refused = 0;
  const pending: Promise<void>[] = [];
  const start = performance.now();
  for (let n = 0; n < calls; n += 1) {
    await pause(Math.max(0, start + n * every - performance.now()));
    const startedAt = performance.now();
    pending.push(
      call(port, agent, n % 2 === 0).then((status) => {
        latencies.push(performance.now() - startedAt);
        if (status !== 200) refused += 1;
      }),
    );
  }
  await Promise.all(pending);
  return { latencies, refused };
}

/** Its status; 0 when the connection was cut. */
async function call(port: number, agent: Agent, inHead: boolean): Promise<number> {
  const batch = [{ type: 'track', event: 'Order Completed', userId: 'u', properties: { total: 39.95 } }];
  const body = inHead ? Buffer.from(JSON.stringify({ batch })) : gzipSync(JSON.stringify({ batch, writeKey: 'WK' }));
  const shown = inHead ? { authorization: 'Basic V0s6' } : { 'content-encoding': 'gzip' };
  const headers = { 'content-length': body.length, ...shown };
  const outgoing = request({ port, host: '127.0.0.1', agent, method: 'POST', path: '/v1/batch', headers });
  outgoing.end(body);
  try {
    const [answer] = await once(outgoing, 'response');
    answer.resume();
    await once(answer, 'end');
    return answer.statusCode;
  } catch {
    return 0;
  }
}

const attacks = ['idle', 'dribble', 'connect', 'nested', 'long', 'lie', 'crowd', 'one crowd'];

await compare({
  name: 'attacks',
  contenders: {
    none: () => run('none'),
    ...Object.fromEntries(
      attacks.flatMap((name) => [
        [name, () => run(name)],
        [`${name} elsewhere`, () => run(name, true)],
      ]),
    ),
  },
  ratios: Object.fromEntries(
    attacks.flatMap((name) => [
      [`${name} / none`, [name, 'none', 'p99Ms']],
      [`${name} / elsewhere`, [name, `${name} elsewhere`, 'p99Ms']],
    ]),
  ),
});
