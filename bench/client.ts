/**
 * Client libraries side by side: 100,000 events to a sink on loopback, each contender in a process of its own.
 * Paced: 20 calls per turn of the event loop. Tight: all calls in one turn.
 */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { SinkResult } from './client/sink.ts';
import { type Contender, compare, type Figures, median, startPart } from './harness.ts';

const events = 100_000;

const names = ['rollcall', 'segment', 'legacy', 'rudderstack'];

interface DriverResult {
  calls: number;
  reported: number;
  started: number;
  cpuMicros: number;
  peakMemoryMb: number;
}

/** Runs `client/driver.mjs` to its end. */
async function drive(...args: string[]): Promise<DriverResult> {
  const driver = await startPart(new URL('client/driver.mjs', import.meta.url), args);
  driver.process.send('go');
  const [result] = await once(driver.process, 'message');
  await driver.stop();
  return result as DriverResult;
}

async function run(name: string, mode: 'paced' | 'tight'): Promise<Figures> {
  const sink = await startPart(new URL('client/sink.ts', import.meta.url));
  try {
    const driver = await drive(name, mode, String(sink.ready), String(events));
    sink.process.send('result');
    const [arrived] = (await once(sink.process, 'message')) as [SinkResult];
    return {
      perSecond: (arrived.messages / (arrived.last - driver.started)) * 1000,
      cpuMicros: driver.cpuMicros / arrived.messages,
      memoryMb: driver.peakMemoryMb - idleMb,
      calls: driver.calls,
      reported: driver.reported,
      lost: driver.calls - arrived.messages - driver.reported,
      duplicated: arrived.duplicates,
    };
  } finally {
    await sink.stop();
  }
}

// As published: type stripping would count as memory of ours.
execFileSync(join(import.meta.dirname, '../node_modules/.bin/tsc'), ['-p', 'src/client/tsconfig.build.json'], {
  cwd: join(import.meta.dirname, '..'),
  stdio: 'inherit',
});

const idle: number[] = [];
for (let i = 0; i < 3; i++) idle.push((await drive('idle')).peakMemoryMb);
const idleMb = median(idle);
console.error(`an idle Node process: ${idleMb.toFixed(1)} MB`);

const contenders: Record<string, Contender> = {};
const ratios: Record<string, [string, string, string]> = {};
for (const mode of ['paced', 'tight'] as const) {
  for (const name of names) {
    contenders[`${name} ${mode}`] = () => run(name, mode);
    if (name === 'rollcall') continue;
    for (const figure of ['perSecond', 'cpuMicros', 'memoryMb']) {
      ratios[`rollcall / ${name}, ${mode}, ${figure}`] = [`rollcall ${mode}`, `${name} ${mode}`, figure];
    }
  }
}
await compare({ name: 'client', contenders, ratios });
