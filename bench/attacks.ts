/**
 * The service under attack, alone and behind the proxies of `deploy/proxy` (those that are installed). An honest client sends a
 * hundred small batches a second, half of them plain with the key in the head, half with gzip and the key in the body: first
 * undisturbed, then during the attack, both times through the same proxy. What it is refused counts as never answered. A probe
 * asks the service itself for `/healthz`, each time on a new connection.
 *
 * Ends with 1 if a limit is broken.
 *
 * Real attackers have processors of their own. Here the attacker runs while nobody else wants to, so that the client waits for
 * what the attack costs the service, and not for a processor that the attacker has. The attack is no smaller as long as both
 * processors are not full of the service's work: `opened` counts its connections. The probe runs in both halves, which thus differ by the
 * attack alone: the row `none` shows what is left of noise. With `--equal` the attacker has the same priority as all others.
 */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type IncomingMessage, Agent as PlainAgent, type RequestOptions, request } from 'node:http';
import { request as requestTls, Agent as TlsAgent } from 'node:https';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { startProxy } from '../test/deploy/proxies.ts';
import { needs } from '../test/helpers/installed.ts';
import type { Counts, Target } from './attacks/attacker.ts';
import { ATTACKS } from './attacks/table.ts';
import { compare, DEPLOYED, type Figures, IN_CONTAINER, insist, peakMemoryMb, startPart } from './harness.ts';

const SETUPS = ['bare', 'nginx', 'caddy'] as const;
/** The largest allowed value of each figure. */
const LIMITS = { memoryMb: 400, healthMs: 1_000, p99Times: 3 };

// As deployed, see `deploy/Dockerfile`.
process.env['MALLOC_ARENA_MAX'] = '2';

const EVERY = 10;
/** The p99 of fewer calls differs up to five times between two rounds without an attack. */
const CALLS = 2_000;
/** Calls before all others, until V8 has compiled what serves them. */
const WARM_UP = 5_000;
/** Milliseconds until an attack has all its connections, and until a call counts as never answered. */
const BUILD_UP = 5_000;
const PATIENCE = 10_000;

async function run(setup: (typeof SETUPS)[number], attack: string): Promise<Figures> {
  const folder = await mkdtemp(join(import.meta.dirname, '.attacks-'));
  await using ends = new AsyncDisposableStack();
  ends.defer(() => rm(folder, { recursive: true, force: true }));
  const start = async (file: string, args: string[], options: readonly string[] = []) => {
    const part = await startPart(new URL(`attacks/${file}`, import.meta.url), args, options);
    ends.defer(() => part.stop());
    return part;
  };
  const attacker = await start('attacker.ts', [attack]);
  const { descriptors = 'unlimited' } = ATTACKS[attack] ?? {};
  const service = await start(
    'service.ts',
    [folder, String(attacker.ready), String(descriptors)],
    [...DEPLOYED, IN_CONTAINER],
  );
  const port = service.ready as number;
  const proxy = setup === 'bare' ? null : await startProxy(setup, port);
  if (proxy) ends.defer(() => proxy.stop());
  const target: Target = { port: proxy?.port ?? port, isTls: proxy !== null };
  const direct = new Client({ port, isTls: false }, '127.0.0.1');
  const client = new Client(target, '127.0.2.1');
  ends.defer(() => direct.close());
  ends.defer(() => client.close());

  const measure = async () => {
    const probe = probeHealth(port);
    const honest = await client.send();
    return { healthMs: await probe(), ...honest };
  };

  const pid = String(attacker.pid);
  if (!process.argv.includes('--equal')) execFileSync('chrt', ['--all-tasks', '--idle', '--pid', '0', pid]);
  await direct.warmUp();
  await client.send();
  const { p99Ms: quietP99Ms } = await measure();
  attacker.process.send(target);
  await pause(BUILD_UP);
  const attacked = await measure();
  attacker.process.send('count');
  const [counts] = (await once(attacker.process, 'message')) as [Counts];
  const memoryMb = peakMemoryMb(service.pid);
  return { memoryMb, quietP99Ms, ...attacked, p99Times: attacked.p99Ms / quietP99Ms, ...counts };
}

const BATCH = [{ type: 'track', event: 'Order Completed', userId: 'u', properties: { total: 39.95 } }];
const PLAIN = Buffer.from(JSON.stringify({ batch: BATCH }));
const PACKED = gzipSync(JSON.stringify({ batch: BATCH, writeKey: 'WK' }));

class Client {
  private readonly request: typeof request;
  private readonly options: RequestOptions;
  private readonly agent: PlainAgent;

  constructor({ port, isTls }: Target, localAddress: string) {
    this.request = isTls ? requestTls : request;
    this.agent = new (isTls ? TlsAgent : PlainAgent)({ keepAlive: true, maxSockets: 16 });
    const server = { port, host: '127.0.0.1', servername: 'localhost', rejectUnauthorized: false };
    this.options = { ...server, localAddress, agent: this.agent, method: 'POST', path: '/v1/batch', timeout: PATIENCE };
  }

  async warmUp(): Promise<void> {
    let left = WARM_UP;
    const go = async () => {
      for (; left > 0; left -= 1) await this.call(left);
    };
    await Promise.all(Array.from({ length: this.agent.maxSockets }, go));
  }

  /** Sends whether or not the one before is answered: a client in a queue does not come less often. */
  async send(): Promise<{ p99Ms: number; lost: number }> {
    const start = performance.now();
    const calls: Promise<number>[] = [];
    for (let n = 0; n < CALLS; n += 1) {
      await pause(Math.max(0, start + n * EVERY - performance.now()));
      calls.push(this.call(n));
    }
    const sorted = (await Promise.all(calls)).toSorted((a, b) => a - b);
    return { p99Ms: sorted[Math.floor(CALLS * 0.99)]!, lost: sorted.filter((ms) => ms === PATIENCE).length };
  }

  close(): void {
    this.agent.destroy();
  }

  private call(n: number): Promise<number> {
    const [body, shown] =
      n % 2 === 0 ? [PLAIN, { authorization: 'Basic V0s6' }] : [PACKED, { 'content-encoding': 'gzip' }];
    const headers = { host: 'localhost', 'content-length': body.length, ...shown };
    return timeOf(this.request, { ...this.options, headers }, body);
  }
}

/** Milliseconds until the whole answer; {@link PATIENCE} for any that is not 200. */
async function timeOf(send: typeof request, options: RequestOptions, body?: Buffer): Promise<number> {
  const startedAt = performance.now();
  const outgoing = send(options);
  outgoing.on('timeout', () => outgoing.destroy()).end(body);
  try {
    const [answer] = (await once(outgoing, 'response')) as [IncomingMessage];
    await answer.resume().toArray();
    return answer.statusCode === 200 ? performance.now() - startedAt : PATIENCE;
  } catch {
    return PATIENCE;
  }
}

/** The returned function ends the probe, and returns its longest wait. */
function probeHealth(port: number): () => Promise<number> {
  let isOver = false;
  const options = {
    port,
    host: '127.0.0.1',
    localAddress: '127.0.3.1',
    path: '/healthz',
    agent: false,
    timeout: PATIENCE,
  } as const;
  const longest = (async () => {
    let most = 0;
    for (; !isOver; await pause(100)) most = Math.max(most, await timeOf(request, options));
    return most;
  })();
  return () => {
    isOver = true;
    return longest;
  };
}

const setups = SETUPS.filter((setup) => {
  const { skip } = setup === 'bare' ? {} : needs(setup);
  if (skip) console.error(`${setup} is left out: ${skip}`);
  return !skip;
});
const names = ['none', ...Object.keys(ATTACKS), 'all'];
const contenders = setups.flatMap((setup) =>
  names.map((name) => [`${setup} ${name}`, () => run(setup, name)] as const),
);
insist(await compare({ name: 'attacks', contenders: Object.fromEntries(contenders) }), () => LIMITS);
