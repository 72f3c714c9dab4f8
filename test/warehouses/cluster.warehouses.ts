import { globSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import t from 'tap';
import { makeHistory, NOW } from '../../bench/log/history.ts';
import type { App } from '../../src/app.ts';
import { loggingService } from '../events/helpers/logging-app.ts';
import { people, YEAR_AUDIENCES, type YearAudience } from '../events/helpers/year.ts';
import { startCutProxy } from '../helpers/cut-proxy.ts';
import { startS3 } from '../helpers/s3.ts';
import { installTrino, logCatalog, readLogWith, startTrino, TRINO_VERSION, trinoSql } from './trino.ts';

const skip = await installTrino();
if (skip) t.comment(skip);

const EVENTS = Number(process.env['CLUSTER_EVENTS'] ?? 1_000_000);
const DATES = [NOW - 30 * 86_400_000, NOW] as const;
/** Of the orders and plans of `makeHistory`, and of the views of pages, which are two events in three. */
const AUDIENCES: readonly YearAudience[] = [
  ...YEAR_AUDIENCES.filter(({ key }) => key !== 'generous'),
  {
    key: 'curious',
    when: { viewed: 'Product', atLeast: 20, within: '90 days' },
    sql: ({ at }, now) =>
      `select person from ${people(
        'e.message_id',
        `e.type = 'page' and e.name = 'Product' and e.timestamp > ${at(now, 90)} and e.timestamp <= ${at(now)}`,
      )} group by person having count(*) >= 20`,
  },
];
/** How far a query is when a node ends: so much of what it reads from the bucket, or of its result. */
const ENDS = [
  { key: 'regular', node: 'worker0', part: 'read', of: 0.1 },
  { key: 'lapsed', node: 'worker1', part: 'read', of: 0.6 },
  { key: 'curious', node: 'worker2', part: 'result', of: 0.4 },
  { key: 'regular', node: 'coordinator', part: 'read', of: 0.5 },
] as const;

t.test('a cluster that loses a node gives the right members or a failed run', { skip }, async (t) => {
  const service = loggingService(t);
  const { folder } = await makeHistory(service.folder, EVENTS, false);
  const s3 = await startS3(t);
  const files = globSync('source=*/day=*/*.parquet', { cwd: folder });
  for (const name of files) s3.link(`some/log/${name}`, join(folder, name));
  const megabytes = [...s3.objects.values()].reduce((sum, { bytes }) => sum + bytes, 0) / 2 ** 20;
  const patience = ['query.remote-task.max-error-duration=10s', 'exchange.max-error-duration=10s'];
  const memory = ['query.max-memory-per-node=500MB', 'memory.heap-headroom-per-node=200MB'];
  const trino = await startTrino(
    { memory: ['connector.name=memory'], log: logCatalog(service.folder, s3) },
    { workers: 3, memory: '1G', settings: [...patience, ...memory] },
  );
  t.teardown(() => trino.stop());
  t.comment(
    `Trino ${TRINO_VERSION}: a coordinator and three workers of 1 GB, ${EVENTS} events in ${Math.round(megabytes)} MB`,
  );
  // Nothing was replaced here, so that nothing is in two files.
  await readLogWith(trino, s3.settings.path, 'CREATE VIEW events AS SELECT * FROM files');
  const proxy = await startCutProxy(trino.port);
  t.teardown(() => proxy.close());

  const common = { source: 'personas', guard: 'off' };
  const app = await service.open([], {
    // The files are where copies of the bucket would be.
    eventLog: { ...s3.settings, cache: { path: './events' } },
    engines: {
      lake: { type: 'duckdb', path: './audiences.duckdb', memoryLimit: '4GB' },
      cluster: {
        type: 'trino',
        url: trino.url('log/web').replace(`:${trino.port}/`, `:${proxy.port}/`),
        snapshots: 'lake',
      },
    },
    audiences: AUDIENCES.flatMap((audience) => [
      { ...common, name: audience.key, key: audience.key, engine: 'lake', when: audience.when },
      {
        ...common,
        name: `${audience.key} there`,
        key: `${audience.key}_there`,
        engine: 'cluster',
        sql: trinoSql(audience),
      },
    ]),
  });
  const sync = async (key: string, now: number) => {
    const began = performance.now();
    const [report] = await app.sync.run([key], { now });
    return { error: report?.error ?? null, seconds: Math.round((performance.now() - began) / 100) / 10 };
  };
  const expected = new Map<string, readonly string[]>();
  const size = new Map<string, { readonly read: number; readonly result: number }>();
  const isAsOf = async (key: string, now: number) =>
    isDeepStrictEqual(await membersOf(app, `${key}_there`), expected.get(`${key} ${now}`));

  for (const { key } of AUDIENCES) {
    for (const now of DATES.toReversed()) {
      const { error } = await sync(key, now);
      if (error) throw error;
      expected.set(`${key} ${now}`, await membersOf(app, key));
    }
    const requests = s3.requests.length;
    proxy.cutAfter(null);
    const { error, seconds } = await sync(`${key}_there`, DATES[0]);
    size.set(key, { read: s3.requests.length - requests, result: proxy.passed });
    t.equal(error, null);
    const found = expected.get(`${key} ${DATES[0]}`) ?? [];
    t.ok(await isAsOf(key, DATES[0]), `${key}: the ${found.length} members that DuckDB finds, in ${seconds} s`);
    t.notSame(found.length, expected.get(`${key} ${DATES[1]}`)?.length, 'another day has others');
  }

  const outcomes = { failed: 0, right: 0 };
  for (const { key, node, part, of } of ENDS) {
    const requests = s3.requests.length;
    proxy.cutAfter(null);
    const passed = { read: () => s3.requests.length - requests, result: () => proxy.passed };
    const most = size.get(key)?.[part] ?? 0;
    const wasAsOf = (await isAsOf(key, DATES[0])) ? DATES[0] : DATES[1];
    const running = sync(`${key}_there`, DATES[1]);
    let isOver = false;
    void running.then(() => {
      isOver = true;
    });
    while (!isOver && passed[part]() < most * of) await pause(10);
    t.notOk(isOver, `${node} ends after ${passed[part]()} of about ${most}`);
    await trino.kill(node);
    const { error, seconds } = await running;
    if (error) {
      outcomes.failed += 1;
      t.match(error.code, /^(engine_failed|engine_unreachable|source_incomplete)$/);
      t.ok(await isAsOf(key, wasAsOf), `${key}: failed after ${seconds} s, and nobody left: ${error.message}`);
    } else {
      outcomes.right += 1;
      t.ok(await isAsOf(key, DATES[1]), `${key}: right all the same, after ${seconds} s`);
    }
    await trino.start(node);
  }
  t.ok(outcomes.failed > 0, JSON.stringify(outcomes));
  for (const { key } of AUDIENCES) {
    const { error, seconds } = await sync(`${key}_there`, DATES[1]);
    t.equal(error, null);
    t.ok(await isAsOf(key, DATES[1]), `${key}: right in the end, in ${seconds} s`);
  }
});

async function membersOf(app: App, key: string): Promise<readonly string[]> {
  const found: string[] = [];
  await app.sync.members(key, async ({ userIds }) => void found.push(...userIds));
  return found.sort();
}
