/**
 * Live messages, `--rate` a second, alone and while the log's events are sent to another destination, which wants three
 * of four: the time from the POST of a live message until it has arrived. The log has `--events` over `--days`.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Agent, request } from 'undici';
import { compare, countCpu, DEPLOYED, type Figures, peakMemoryMb, startPart } from './harness.ts';
import type { Sent, Work } from './sends/work.ts';

const { values } = parseArgs({
  strict: false,
  options: {
    events: { type: 'string' },
    days: { type: 'string' },
    rate: { type: 'string' },
    seconds: { type: 'string' },
  },
});
const events = Number(values['events'] ?? 200_000);
const days = Number(values['days'] ?? 10);
const rate = Number(values['rate'] ?? 100);
const seconds = Number(values['seconds'] ?? 20);

async function run(isSending: boolean): Promise<Figures> {
  // On the disk of the checkout: the system's folder for temporary files may be in memory.
  const folder = await mkdtemp(join(import.meta.dirname, '.sends-'));
  const times: number[] = [];
  const sink = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk) => {
      text += String(chunk);
    });
    request.on('end', () => {
      response.end();
      times.push(performance.now() - (JSON.parse(text) as { properties: { at: number } }).properties.at);
    });
  });
  await new Promise<void>((resolve) => sink.listen(0, '127.0.0.1', resolve));
  const late = await startPart(new URL('sends/sink.ts', import.meta.url));
  const livePort = (sink.address() as AddressInfo).port;
  const work: Work = { folder, events, days, livePort, latePort: Number(late.ready) };
  const service = await startPart(new URL('sends/service.ts', import.meta.url), [JSON.stringify(work)], DEPLOYED);
  const agent = new Agent({ connections: 32 });
  let isOver = false;
  try {
    const post = async () => {
      const body = { event: 'Live', userId: 'u', properties: { at: performance.now() } };
      const headers = { authorization: `Basic ${btoa('web-key:')}`, 'content-type': 'application/json' };
      const answer = await request(`http://127.0.0.1:${service.ready}/v1/track`, {
        ...{ method: 'POST', dispatcher: agent, headers, body: JSON.stringify(body) },
      });
      await answer.body.dump();
    };
    const posts: Promise<void>[] = [];
    const began = performance.now();
    const traffic = (async () => {
      for (let sent = 0; !isOver; sent += 1) {
        await setTimeout(Math.max(0, began + (sent * 1_000) / rate - performance.now()));
        posts.push(post());
      }
    })();
    // Warm.
    await setTimeout(3_000);
    times.length = 0;
    const cpu = countCpu([service.pid]);
    const from = performance.now();
    const wanted = events - Math.ceil(events / 4);
    if (isSending) {
      const done = await new Promise<Sent>((resolve) => {
        service.process.once('message', (message) => resolve(message as Sent));
        service.process.send('go');
      });
      if (done.delivered !== wanted) throw new Error(`${done.delivered} of ${wanted} events were delivered`);
    } else await setTimeout(seconds * 1_000);
    const took = (performance.now() - from) / 1_000;
    isOver = true;
    await traffic;
    await Promise.all(posts);
    const sorted = times.toSorted((a, b) => a - b);
    const at = (share: number) => sorted[Math.floor(sorted.length * share)] ?? Number.NaN;
    return {
      ...{ p50: at(0.5), p95: at(0.95), p99: at(0.99), live: sorted.length / took },
      ...{ sentPerSecond: isSending ? wanted / took : 0, cpu: cpu() / 1_000_000 / took },
      memoryMb: peakMemoryMb(service.pid),
    };
  } finally {
    await service.stop();
    await late.stop();
    await agent.close();
    sink.close();
    sink.closeAllConnections();
    await rm(folder, { recursive: true, force: true });
  }
}

await compare({
  name: 'sends',
  contenders: { alone: () => run(false), 'with a send': () => run(true) },
  ratios: { 'p95, with a send / alone': ['with a send', 'alone', 'p95'] },
});
