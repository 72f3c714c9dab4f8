/**
 * The event log. `accept`: batches of 100 with one destination, without a log, with one, and with one that is sealed
 * meanwhile. `sealing`: a full tail becomes files. The rest: who ordered at least three times in 90 of 180 days, by SQL and by
 * a short definition, over the log of 180 days and over one plain Parquet file of the same events in the order of time.
 *
 * `--events 50000000` says how many of them; `--only` takes names.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { compare, type Figures, only, startPart } from './harness.ts';
import { accepting } from './log/accept.ts';
import { type History, makeHistory } from './log/history.ts';

const { values } = parseArgs({ strict: false, options: { events: { type: 'string' } } });
const events = Number(values['events'] ?? 5_000_000);
const QUERIES = ['sql over plain', 'sql over log', 'short over plain', 'short over log'];

async function sealing(): Promise<Figures> {
  const folder = await mkdtemp(join(import.meta.dirname, '.log-'));
  try {
    const part = await startPart(new URL('log/sealing.ts', import.meta.url), [folder]);
    await part.stop();
    return part.ready as Figures;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function query(contender: string, history: History | null): Promise<Figures> {
  const part = await startPart(new URL('log/query.ts', import.meta.url), [contender, JSON.stringify(history)]);
  await part.stop();
  return part.ready as Figures;
}

const root = mkdtempSync(join(import.meta.dirname, '.log-history-'));
try {
  const isAsked = QUERIES.some((name) => only?.includes(name) ?? true);
  const history = isAsked ? await makeHistory(root, events) : null;
  await compare({
    name: 'log',
    contenders: {
      'accept without a log': () => accepting('off'),
      'accept with the log': () => accepting('on'),
      'accept with the log, sealed': () => accepting('sealed'),
      sealing,
      ...Object.fromEntries(QUERIES.map((name) => [name, () => query(name, history)])),
    },
    ratios: {
      'CPU of an accept, with / without': ['accept with the log', 'accept without a log', 'cpuMicros'],
      'sealing included': ['accept with the log, sealed', 'accept without a log', 'cpuMicros'],
      'sql over log / plain': ['sql over log', 'sql over plain', 'seconds'],
      'sql over log / plain, by CPU': ['sql over log', 'sql over plain', 'cpuSeconds'],
      'short over log / plain': ['short over log', 'short over plain', 'seconds'],
      'short over log / plain, by CPU': ['short over log', 'short over plain', 'cpuSeconds'],
    },
  });
} finally {
  rmSync(root, { recursive: true, force: true });
}
