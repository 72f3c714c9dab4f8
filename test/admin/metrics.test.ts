import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import t from 'tap';
import { parse } from 'yaml';
import type { AudienceStatus } from '../../jobs/index.ts';
import { metricsTable } from '../../scripts/write-metrics.ts';
import { createMetrics } from '../../src/admin/metrics/metrics.ts';
import { Tally } from '../../src/history/tally.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import type { Attempt, Verdict } from '../../src/store/port.ts';
import { run } from '../contract/store-fixture.ts';
import { claims } from '../deliver/helpers/queue.ts';

const endpoint = (id: string) => ({ id, url: 'http://h/', headers: {} });
const PARTS = {
  keys: () => ['vips'],
  audiences: async (): Promise<AudienceStatus[]> => [],
  storeTime: () => 0,
  deliveries: new Tally(() => 0),
  eventLog: null,
  bucketTraffic: null,
  live: { allStates: async () => [], currentState: async () => null },
  clock: { now: () => 1_000_000, monotonic: () => 0 },
  destinations: () => [
    {
      ...{ name: 'crm', enabled: true, sources: ['shop'], secrets: [], require: 'any' as const, ratePerSecond: null },
      endpoints: [endpoint('e1'), endpoint('e3')],
    } as const,
  ],
};

const LIVE = {
  ...{ state: 1, source: 'personas', asked: '', position: '', at: 0, revision: 1 },
  ...{ isBuilding: false, isStale: false, isUnseen: false },
  ...{ done: 9, total: 9, ids: 42, due: 17 },
};

t.test('reads only counters of the store in a scrape, and reports the current backlog', async (t) => {
  const asked: string[] = [];
  const answers = {
    oldestUntried: async () => [{ destination: 'crm', since: 940_000 }],
    lastSuccesses: async () => [{ key: 'vips', members: 12, at: 940_000 }],
    ping: async () => undefined,
    backlog: async () => [{ destination: 'crm', pending: 7, dead: 3, queued: 5, heldOut: 2 }],
    orphans: async () => [{ destination: 'gone', pending: 5, since: null, unknownFor: 0 }],
    endpoints: async () => [
      { endpoint: 'e1', destination: 'crm', pausedAt: null, deadSince: 1 },
      {
        endpoint: 'e2',
        destination: 'crm',
        pausedAt: null,
        deadSince: null,
        refusal: { since: 1, from: 1, takenAt: null },
      },
    ],
  };
  const watched = <T extends object>(port: T): T =>
    new Proxy(port, {
      get(target, verb) {
        asked.push(String(verb));
        return Reflect.get(target, verb);
      },
    });
  const live = watched({ allStates: async () => [LIVE], currentState: async () => LIVE });
  const metrics = createMetrics({ ...PARTS, store: watched(answers), live });
  const text = await metrics.registry.metrics();
  t.match(text, /^rollcall_backlog\{destination="crm"\} 7$/m);
  t.match(text, /^rollcall_dead_letters\{destination="crm"\} 3$/m);
  t.match(text, /^rollcall_held_out\{destination="crm"\} 2$/m);
  t.match(text, /^rollcall_orphaned_deliveries\{destination="gone"\} 5$/m);
  t.match(text, /^rollcall_closed_endpoints\{destination="crm",state="dead"\} 1$/m);
  t.match(text, /^rollcall_closed_endpoints\{destination="crm",state="refusing"\} 1$/m);
  t.match(text, /^rollcall_oldest_untried_seconds\{destination="crm"\} 60$/m);
  t.match(text, /^rollcall_endpoint_state\{destination="crm",endpoint="e1",state="dead"\} 1$/m);
  t.match(text, /^rollcall_endpoint_state\{destination="crm",endpoint="e3",state="open"\} 1$/m);
  t.match(text, /^rollcall_members\{key="vips"\} 12$/m);
  t.match(text, /^rollcall_last_success_timestamp_seconds\{key="vips"\} 940$/m);
  t.match(text, /^rollcall_live_ids\{source="personas"\} 42$/m);
  t.match(text, /^rollcall_live_due\{source="personas"\} 17$/m);
  t.match(text, /^rollcall_store_up 1$/m);
  t.notMatch(text, /^rollcall_event_log_bytes/m, 'no log is kept');
  t.equal(asked.filter((verb) => verb === 'backlog').length, 1, 'once for all gauges');
  const asks = [
    'allStates',
    'backlog',
    'currentState',
    'endpoints',
    'lastSuccesses',
    'oldestUntried',
    'orphans',
    'ping',
  ];
  t.same([...new Set(asked)].toSorted(), asks);
});

function status(changes: Partial<AudienceStatus>): AudienceStatus {
  return {
    ...{ key: 'vips', kind: 'audience', engine: 'lake', source: 'personas', state: 'ok', members: 12, trend: [] },
    ...{
      lastRun: null,
      ordered: null,
      schedule: null,
      nextRunAt: null,
      overdueSince: null,
      paused: null,
      live: null,
      todo: null,
    },
    ...changes,
  };
}

t.test('reports the state of audiences, and counts from 0 before the first delivery or run', async (t) => {
  const nothing = async () => [];
  const store = {
    ...{ backlog: nothing, orphans: nothing, endpoints: nothing, oldestUntried: nothing },
    lastSuccesses: async () => ['calm', 'frozen', 'vips'].map((key) => ({ key, members: 12, at: 900_000 })),
    ping: async () => undefined,
  };
  const failure = { do: 'repair', run: 'r1', code: 'sql_failed', reason: '', since: 700_000 } as const;
  const live = { lag: 2_000, progress: null, ids: 0, due: 0, hold: null };
  const audiences = async () => [
    status({ key: 'vips', state: 'failed', todo: failure }),
    // It is tried again right now.
    status({ key: 'again', state: 'unfinished', todo: failure }),
    status({ key: 'guarded', state: 'held', todo: { do: 'decide', run: 'r2', reason: '' } }),
    status({ key: 'calm', live }),
    status({ key: 'frozen', live: { ...live, hold: 'rejected' } }),
  ];
  const metrics = createMetrics({ ...PARTS, store, audiences });
  const text = await metrics.registry.metrics();
  t.same(
    text.split('\n').filter((line) => /^rollcall_(audience_state|failing_since\w+|last_success\w+)\{/.test(line)),
    [
      'rollcall_last_success_timestamp_seconds{key="calm"} 998',
      'rollcall_last_success_timestamp_seconds{key="frozen"} 900',
      'rollcall_last_success_timestamp_seconds{key="vips"} 900',
      'rollcall_audience_state{key="vips",state="failed"} 1',
      'rollcall_audience_state{key="again",state="unfinished"} 1',
      'rollcall_audience_state{key="guarded",state="held"} 1',
      'rollcall_audience_state{key="calm",state="ok"} 1',
      'rollcall_audience_state{key="frozen",state="ok"} 1',
      'rollcall_failing_since_timestamp_seconds{key="vips"} 700',
      'rollcall_failing_since_timestamp_seconds{key="again"} 700',
    ],
  );
  for (const name of ['backlog', 'dead_letters', 'held_out'])
    t.match(text, `\nrollcall_${name}{destination="crm"} 0\n`);
});

t.test('observes the metrics of the process once, for any number of services', async (t) => {
  const store = new Proxy({}, { get: () => async () => [] });
  const [one, other] = [createMetrics({ ...PARTS, store } as never), createMetrics({ ...PARTS, store } as never)];
  for (const name of ['nodejs_gc_duration_seconds', 'nodejs_eventloop_lag_p99_seconds', 'process_cpu_seconds_total']) {
    t.ok(one.registry.getSingleMetric(name), name);
    t.equal(other.registry.getSingleMetric(name), one.registry.getSingleMetric(name));
  }
  for (const name of ['mean', 'p90']) t.notOk(one.registry.getSingleMetric(`nodejs_eventloop_lag_${name}_seconds`));
  t.not(other.registry.getSingleMetric('rollcall_runs_total'), one.registry.getSingleMetric('rollcall_runs_total'));
});

t.test('reports a store that does not answer, and still the counts of the process', async (t) => {
  const fails = async () => Promise.reject(new Error('gone'));
  const store = {
    ...{ backlog: fails, orphans: fails, endpoints: fails, oldestUntried: fails, lastSuccesses: fails, ping: fails },
  };
  const metrics = createMetrics({ ...PARTS, store, live: { allStates: fails, currentState: fails } });
  metrics.accepted('shop', { accepted: 3, duplicates: 0, suppressed: 0 }, 4);
  const text = await metrics.registry.metrics();
  t.match(text, /^rollcall_store_up 0$/m);
  t.match(text, /^rollcall_messages_total\{source="shop",result="accepted"\} 3$/m);
  t.notMatch(text, /^rollcall_backlog\{/m);
});

t.test('counts deliveries and attempts by destination in the way of Prometheus', async (t) => {
  const nothing = async () => [];
  const store = {
    ...{ backlog: nothing, orphans: nothing, endpoints: nothing, oldestUntried: nothing, lastSuccesses: nothing },
    ping: async () => undefined,
  };
  const deliveries = new Tally(() => 2_000);
  const metrics = createMetrics({ ...PARTS, store, deliveries });
  const attempt = {
    endpoint: 'e1',
    at: 0,
    ms: 3,
    outcome: 'success',
    status: 200,
    error: null,
    response: null,
  } as const;
  const settle = (verdict: Verdict, ...attempts: readonly Attempt[]) => {
    for (const claim of claims(1, 'd', { acceptedAt: 1_960 })) deliveries.settled({ claim, verdict, attempts });
  };
  settle({ kind: 'delivered' }, attempt, { ...attempt, endpoint: 'e3', ms: 7_000, outcome: 'retry' });
  settle({ kind: 'delivered' }, { ...attempt, endpoint: 'e3', ms: 5 });
  settle({ kind: 'dead', reason: 'refused', status: 400, firstAt: 0 }, { ...attempt, outcome: 'skipped' });
  const scrape = async () =>
    (await metrics.registry.metrics()).split('\n').filter((line) => /^(# TYPE )?rollcall_(attempt|deliver)/.test(line));
  const lines = await scrape();
  const text = lines.join('\n');
  t.same(
    lines.filter((line) => !/_bucket|^#/.test(line)),
    [
      'rollcall_attempts_total{destination="crm",outcome="success"} 2',
      'rollcall_attempts_total{destination="crm",outcome="skipped"} 1',
      'rollcall_attempts_total{destination="crm",outcome="retry"} 1',
      'rollcall_deliveries_total{destination="crm",verdict="delivered"} 2',
      'rollcall_deliveries_total{destination="crm",verdict="dead"} 1',
      'rollcall_attempt_seconds_sum{destination="crm"} 7.008',
      'rollcall_attempt_seconds_count{destination="crm"} 3',
      'rollcall_delivery_seconds_sum{destination="crm"} 0.08',
      'rollcall_delivery_seconds_count{destination="crm"} 2',
    ],
  );
  t.match(text, /^# TYPE rollcall_attempt_seconds histogram$/m);
  t.match(text, /^rollcall_attempt_seconds_bucket\{le="0.005",destination="crm"\} 2$/m, 'a bound is within');
  t.match(text, /^rollcall_attempt_seconds_bucket\{le="5",destination="crm"\} 2$/m);
  t.match(text, /^rollcall_attempt_seconds_bucket\{le="\+Inf",destination="crm"\} 3$/m);
  t.match(text, /^rollcall_delivery_seconds_bucket\{le="0.01",destination="crm"\} 0$/m);
  t.match(text, /^rollcall_delivery_seconds_bucket\{le="0.05",destination="crm"\} 2$/m);
  t.same(await scrape(), lines, 'the next scrape counts nothing twice');
});

t.test('counts runs by outcome, with their duration, and failures by code', async (t) => {
  const nothing = async () => [];
  const store = {
    ...{ backlog: nothing, orphans: nothing, endpoints: nothing, oldestUntried: nothing, lastSuccesses: nothing },
    ping: async () => undefined,
  };
  const keys = ['vips'];
  const metrics = createMetrics({ ...PARTS, store, keys: () => keys });
  t.match(await metrics.registry.metrics(), /^rollcall_runs_total\{key="vips",outcome="done"\} 0$/m);
  const done = run({ key: 'vips', state: 'done', startedAt: 0, finishedAt: 3_000 });
  const held = run({ key: 'vips', state: 'held', startedAt: 0, finishedAt: 2_000 });
  const report = { key: 'vips', kind: 'audience', isStillHeld: false, error: null } as const;
  for (let n = 0; n < 5; n += 1) metrics.reported({ ...report, runs: [done] });
  metrics.reported({ ...report, runs: [], error: new RollcallError('sql_failed', 'no such table') });
  metrics.reported({ ...report, runs: [], error: new RollcallError('run_in_progress', 'another does it') });
  metrics.reported({ ...report, runs: [done, held] });
  for (let tick = 0; tick < 3; tick += 1) metrics.reported({ ...report, runs: [held], isStillHeld: true });
  keys.push('late');
  const text = await metrics.registry.metrics();
  t.match(text, /^rollcall_runs_total\{key="vips",outcome="done"\} 6$/m);
  t.match(text, /^rollcall_runs_total\{key="vips",outcome="failed"\} 1$/m);
  t.match(text, /^rollcall_runs_total\{key="vips",outcome="held"\} 1$/m, 'once, however many ticks find it held');
  for (const outcome of ['done', 'held', 'failed', 'rejected'])
    t.match(text, `\nrollcall_runs_total{key="late",outcome="${outcome}"} 0\n`, 'configured by a reload');
  t.match(text, /^rollcall_run_failures_total\{key="vips",code="sql_failed"\} 1$/m);
  t.match(text, /^rollcall_run_seconds_sum\{key="vips"\} 20$/m);
  t.match(text, /^rollcall_run_seconds_count\{key="vips"\} 7$/m);
});

const ROOT = resolve(import.meta.dirname, '../..');
const read = (path: string) => readFileSync(resolve(ROOT, path), 'utf8');

t.test('docs/alerts.md lists each metric as it is', async (t) => {
  t.ok(read('docs/alerts.md').includes(metricsTable()), 'node scripts/write-metrics.ts writes it anew');
});

t.test('the dashboard and the alert rules use existing metrics and labels', async (t) => {
  const table = metricsTable();
  const known = new Set([...table.matchAll(/^\| `(\w+)`/gm)].map(([, name = '']) => name));
  const board = JSON.parse(read('deploy/grafana/rollcall.json'));
  const rules = parse(read('deploy/prometheus/rollcall.rules.yaml'));
  const tests = ['rollcall.rules.test.yaml', 'rollcall.rules.days.test.yaml'].flatMap(
    (name) => parse(read(`deploy/prometheus/${name}`)).tests,
  );
  const asked = [
    ...board.panels.flatMap(({ targets }: { targets: { expr: string }[] }) => targets.map(({ expr }) => expr)),
    ...rules.groups[0].rules.map(({ expr }: { expr: string }) => expr),
    ...tests.flatMap(({ input_series }: { input_series: { series: string }[] }) =>
      input_series.map(({ series }) => series),
    ),
  ];
  t.ok(asked.length > 20);
  for (const expr of asked) {
    for (const [name] of expr.matchAll(/\brollcall_\w+/g)) {
      t.ok(known.has(name.replace(/_bucket$/, '')), `${name} of ${expr}`);
    }
  }
});

const promtool = spawnSync('promtool', ['--version']).error ? 'promtool (Debian prometheus) is not installed' : false;

t.test('promtool accepts the alert rules, and they fire when they should', { skip: promtool }, async (t) => {
  const rules = resolve(ROOT, 'deploy/prometheus/rollcall.rules.yaml');
  const tests = ['.test.yaml', '.days.test.yaml'].map((end) => rules.replace('.yaml', end));
  for (const args of [
    ['check', 'rules', rules],
    ['test', 'rules', ...tests],
  ]) {
    const { status, stdout, stderr } = spawnSync('promtool', args, { encoding: 'utf8' });
    t.equal(status, 0, `${stdout}${stderr}`);
  }
});
