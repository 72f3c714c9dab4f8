/**
 * The adapter of postgresql-job-queue-benchmarking, by its CONTRIBUTING_ADAPTERS.md: a process that puts jobs in and works them
 * off, and prints its figures as lines of JSON. The way in and the worker are those of the service; the worker's HTTP client is
 * replaced by a handler in the process, since that is what a job queue has. A job is completed once its settlement is written.
 */
import { readFileSync } from 'node:fs';
import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { pino } from 'pino';
import { Dispatcher } from 'undici';
import { createAccept } from '../../src/accept.ts';
import { Worker } from '../../src/deliver/worker.ts';
import { type Destination, endpointId } from '../../src/destination.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { openStore } from '../../src/store/open.ts';
import type { Settlement } from '../../src/store/port.ts';
import { migratePostgres } from '../../src/store/postgres/migrate.ts';
import { SECRET } from '../scale/work.ts';
import adapter from './adapter.json' with { type: 'json' };

const env = (name: string, otherwise: number) => Number(process.env[name] ?? otherwise);
const instance = env('BENCH_INSTANCE_ID', 0);
const sampleEvery = env('SAMPLE_EVERY_S', 5);
const batchMs = env('PRODUCER_BATCH_MS', 10);
const batchMax = env('PRODUCER_BATCH_MAX', 128);
const workers = env('WORKER_COUNT', 32);
const workMs = env('JOB_WORK_MS', 1);
/** Seconds that percentiles are of. */
const WINDOW = 30;
/** Milliseconds before jobs that could not be put in are tried again. */
const RETRY = 200;
const padding = 'x'.repeat(Math.max(0, env('JOB_PAYLOAD_BYTES', 256) - 120));
const url = String(process.env['DATABASE_URL']);
const log = pino({ level: 'warn', base: null, serializers: { err: ({ message }) => message } }, pino.destination(2));
const stopping = new AbortController();
const { signal } = stopping;

const print = (record: object) =>
  void process.stdout.write(`${JSON.stringify({ ...record, system: adapter.system, instance_id: instance })}\n`);

/** Latencies of the last {@link WINDOW} seconds, in a histogram for each sample. */
class Latencies {
  private readonly parts: RecordableHistogram[] = [createHistogram()];

  add(ms: number): void {
    this.parts[0]?.record(Math.max(1, Math.round(ms * 1_000)));
  }

  /** Milliseconds, by the names of their metrics; begins the next part. */
  percentiles(name: string): [metric: string, value: number, window: number][] {
    const all = createHistogram();
    for (const part of this.parts) if (part.count > 0) all.add(part);
    this.parts.unshift(createHistogram());
    this.parts.length = Math.min(this.parts.length, Math.ceil(WINDOW / sampleEvery));
    const at = (percent: number) => (all.count > 0 ? all.percentile(percent) / 1_000 : 0);
    return [50, 95, 99].map((percent) => [`${name}_p${percent}_ms`, at(percent), WINDOW]);
  }
}

const latencies = { producer: new Latencies(), subscriber: new Latencies(), end_to_end: new Latencies() };
let enqueued = 0;
let completed = 0;
let depth = 0;
let rate = env('PRODUCER_RATE', 800);

/** Answers each request once a worker has handled its job: at most `workers` of them work at a time. */
class Handler extends Dispatcher {
  private readonly waiting: (() => void)[] = [];
  private free = workers;

  override dispatch({ body }: Dispatcher.DispatchOptions, answer: Dispatcher.DispatchHandler): boolean {
    const work = () => void this.work(JSON.parse(String(body)), answer);
    if (this.free === 0) this.waiting.push(work);
    else {
      this.free -= 1;
      work();
    }
    return true;
  }

  private async work(job: { enqueuedAt: number }, answer: Dispatcher.DispatchHandler): Promise<void> {
    latencies.subscriber.add(Date.now() - job.enqueuedAt);
    if (workMs > 0) await pause(workMs);
    latencies.end_to_end.add(Date.now() - job.enqueuedAt);
    const controller = { abort() {} } as unknown as Dispatcher.DispatchController;
    answer.onResponseStart?.(controller, 200, {});
    answer.onResponseEnd?.(controller, {});
    const next = this.waiting.shift();
    if (next) next();
    else this.free += 1;
  }
}

await migratePostgres(url);
const clock = systemClock;
const fatal = (error: Error) => {
  log.fatal({ err: error }, 'ended');
  process.exit(1);
};
const store = await openStore({ url, maxQueued: 10_000_000 }, clock, { onFatal: fatal, onDamaged: fatal });
const endpoint = { id: endpointId('jobs', 'http://handler/'), url: 'http://handler/', headers: {} };
const common = { enabled: true, require: 'any', ratePerSecond: null } as const;
const destinations: readonly Destination[] = [
  { ...common, name: 'jobs', sources: ['producer'], secrets: [SECRET], endpoints: [endpoint] },
];
const settle = async (owner: number, settlements: readonly Settlement[], keeps?: boolean) => {
  await store.settle(owner, settlements, keeps);
  completed += settlements.filter(({ verdict }) => verdict.kind === 'delivered').length;
};
const worker = new Worker({
  store: { ...store, settle },
  clock,
  agent: new Handler(),
  serviceName: 'Rollcall',
  destinations,
  attemptRetention: () => 86_400_000,
  removedAfter: () => 86_400_000,
  log,
  onFatal: fatal,
});
const accept = createAccept(store, () => destinations, worker);
await worker.start();

let last = 0;
/** Puts in jobs, under the same ids until they are known to be on disk. */
async function enqueue(count: number): Promise<void> {
  const enqueuedAt = Date.now();
  const startedAt = performance.now();
  const messages = Array.from({ length: count }, () => {
    last += 1;
    const messageId = `${instance}-${process.pid}-${last}`;
    const body = JSON.stringify({ messageId, userId: `user-${last % 5_000}`, enqueuedAt, padding });
    return { type: 'track' as const, messageId, userId: `user-${last % 5_000}`, integrations: null, body };
  });
  while (!signal.aborted) {
    try {
      await accept('producer', messages);
      enqueued += count;
      return latencies.producer.add((performance.now() - startedAt) / count);
    } catch (error) {
      log.warn({ err: error }, 'could not enqueue');
      await pause(RETRY, undefined, { signal }).catch(() => undefined);
    }
  }
}

/** Credits the time that has really passed, or keeps `TARGET_DEPTH` jobs waiting. */
async function produce(): Promise<void> {
  const target = process.env['PRODUCER_MODE'] === 'depth-target' ? env('TARGET_DEPTH', 1_000) : null;
  const file = process.env['PRODUCER_RATE_CONTROL_FILE'];
  let credit = 0;
  for (let at = performance.now(); !signal.aborted; ) {
    if (file !== undefined) rate = Number(readFileSync(file, 'utf8')) || rate;
    const now = performance.now();
    credit += (rate * (now - at)) / 1_000;
    at = now;
    const wanted = target === null ? Math.floor(credit) : target - (enqueued - completed);
    const count = Math.min(batchMax, wanted);
    if (count > 0) await enqueue(count);
    else await pause(batchMs);
    credit -= Math.max(0, count);
  }
}

async function watchDepth(): Promise<void> {
  while (!signal.aborted) {
    const backlogs = await store.backlog().catch(() => []);
    depth = backlogs[0]?.pending ?? depth;
    await pause(250);
  }
}

async function sample(): Promise<void> {
  let [entered, left] = [enqueued, completed];
  while (!signal.aborted) {
    await pause(1_000 * sampleEvery - (Date.now() % (1_000 * sampleEvery)), undefined, { signal }).catch(
      () => undefined,
    );
    const metrics: [metric: string, value: number, window: number][] = [
      ...latencies.producer.percentiles('producer'),
      ...latencies.subscriber.percentiles('subscriber'),
      ...latencies.end_to_end.percentiles('end_to_end'),
      ['enqueue_rate', (enqueued - entered) / sampleEvery, sampleEvery],
      ['completion_rate', (completed - left) / sampleEvery, sampleEvery],
    ];
    [entered, left] = [enqueued, completed];
    for (const [metric, value, window] of metrics) {
      if (metric.startsWith('subscriber')) metrics.push([metric.replace('subscriber', 'claim'), value, window]);
    }
    // The first replica reports what all would see alike.
    if (instance === 0) metrics.push(['queue_depth', depth, 0], ['producer_target_rate', rate, 0]);
    const common = { t: new Date().toISOString(), kind: 'adapter', subject_kind: 'adapter', subject: '' };
    for (const [metric, value, window_s] of metrics) print({ ...common, metric, value, window_s });
  }
}

const { event_tables, extensions, db_name } = adapter;
const started_at = new Date().toISOString();
print({ kind: 'descriptor', event_tables, extensions, db_name, started_at, version: 'checkout', schema_version: '1' });
// The harness may write its own pace there, and would wait for ever once the pipe is full.
process.stdin.resume();
for (const name of ['SIGTERM', 'SIGINT']) process.on(name, () => stopping.abort());
await Promise.all([produce(), sample(), instance === 0 && watchDepth()]);
await worker.stop();
const [left] = await store.backlog();
console.error(`[rollcall] ${enqueued} enqueued, ${completed} completed, ${left?.pending ?? 0} waiting`);
await store.close();
process.exit(0);
