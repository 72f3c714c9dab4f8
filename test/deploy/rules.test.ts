import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { pino } from 'pino';
import t from 'tap';
import { parse } from 'yaml';
import { App } from '../../src/app.ts';
import { parseConfig } from '../../src/config/load.ts';
import { startInbox } from '../collect/running.ts';
import { needs } from '../helpers/installed.ts';
import { until } from '../helpers/until.ts';

/** Feeds the alert rules with what a process exports, and nothing else. */

const RULES = fileURLToPath(new URL('../../deploy/prometheus/rollcall.rules.yaml', import.meta.url));
const run = promisify(execFile);

const users = (count: number) => `select 'u' || range as user_id from range(${count})`;
const audience = (key: string, sql: string) => ({
  ...{ name: key, key, source: 'personas', sql, schedule: '0 0 1 1 *' },
  guard: { maxExits: '20%' },
});

/** The series of a scrape, each with its value; times are those since the scrape. */
async function scrape(app: App): Promise<ReadonlyMap<string, number>> {
  const lines = (await app.metrics.registry.metrics()).split('\n');
  const now = Date.now() / 1_000;
  return new Map(
    lines.flatMap((line): [string, number][] => {
      const [, series = '', value = ''] = /^(rollcall_\S+) (\S+)$/.exec(line) ?? [];
      if (series === '' || series.includes('_bucket{')) return [];
      return [[series, series.includes('_timestamp_seconds') ? Number(value) - now : Number(value)]];
    }),
  );
}

/** The series of one of the processes that share the store. */
const labelled = (series: string, process: string) =>
  series.endsWith('}') ? series.replace(/\}$/, `,instance="${process}"}`) : `${series}{instance="${process}"}`;

const DAY = 24 * 60;
/** The minute at which the second scrape took the place of the first. */
const CHANGE = 60;

/** Says which alerts of two processes fire so many minutes after things changed: `ALERT SUBJECT`, once per alert. */
async function firing(
  folder: string,
  before: ReadonlyMap<string, number>,
  after: ReadonlyMap<string, number>,
  minutes: number,
): Promise<readonly string[]> {
  const shown = (value: number | undefined, series: string) => {
    if (value === undefined) return '_';
    return `${series.includes('_timestamp_seconds') ? Math.round(value + CHANGE * 60) : value}`;
  };
  const names = [...new Set([...before.keys(), ...after.keys()])];
  const until = CHANGE + minutes;
  // Days at every minute would take seconds.
  const step = minutes > DAY ? 15 : 1;
  const samples = (length: number) => Math.ceil(length / step);
  const test = {
    interval: `${step}m`,
    input_series: names.flatMap((series) => {
      const values = `${shown(before.get(series), series)}x${samples(CHANGE) - 1} ${shown(after.get(series), series)}x${samples(minutes) + 1}`;
      return ['a', 'b'].map((process) => ({ series: labelled(series, process), values }));
    }),
    promql_expr_test: [
      {
        expr: 'ALERTS{alertstate="firing", alertname!="RollcallDown"}',
        eval_time: `${until}m`,
        exp_samples: [],
      },
    ],
  };
  const path = join(folder, 'rules.test.yaml');
  writeFileSync(path, JSON.stringify({ rule_files: [RULES], evaluation_interval: `${step}m`, tests: [test] }));
  const said = await run('promtool', ['test', 'rules', path]).then(
    ({ stdout, stderr }) => stdout + stderr,
    ({ stdout, stderr }) => String(stdout) + String(stderr),
  );
  const [, got = ''] = /got:(.*)/s.exec(said) ?? [];
  return [...got.matchAll(/\{([^}]*)\}/g)]
    .map(([, text = '']) => {
      const labels = new Map([...text.matchAll(/(\w+)="([^"]*)"/g)].map(([, name, value]) => [name, value]));
      return ['alertname', 'key', 'destination', 'instance'].flatMap((name) => labels.get(name) ?? []).join(' ');
    })
    .toSorted();
}

t.test('fires the alert rules on what a process exports', needs('promtool'), async (t) => {
  const inbox = await startInbox(t);
  inbox.status = 400;
  const folder = t.testdir();
  const configOf = (...audiences: object[]) =>
    parseConfig(
      JSON.stringify({
        ...{ store: 'sqlite:./rollcall.db', listen: { host: '127.0.0.1', port: 0 } },
        network: { allow: ['127.0.0.0/8'] },
        sources: ['shop', 'personas'].map((id) => ({ id, writeKey: id })),
        destinations: [{ name: 'crm', sources: ['shop'], sharedSecret: 'a secret of the test', webhookUrl: inbox.url }],
        audiences,
      }),
      { file: 'rollcall.yaml', folder, env: {} },
    );
  const [fine, broken] = [audience('fine', users(3)), audience('broken', 'select nothing')];
  const app = await App.create(configOf(fine, broken, audience('guarded', users(10))), {
    log: pino({ level: 'silent' }),
  });
  t.teardown(() => app.close());
  await app.start({ collect: true, schedules: false });
  const fresh = await scrape(app);
  await app.sync.run(['fine', 'guarded']);
  const before = await scrape(app);
  t.same(await firing(folder, fresh, before, 30), [], 'nothing is wrong');

  await app.reload(configOf(fine, broken, audience('guarded', users(5)), audience('unrun', users(3))));
  await app.sync.run(['guarded', 'broken']);
  await app.accept('shop', [
    { type: 'track', messageId: 'm', userId: 'u', integrations: null, body: '{"type":"track"}' },
  ]);
  await until(async () => (await app.store.backlog()).some(({ dead }) => dead > 0));
  const after = await scrape(app);
  const standing = ['RollcallRunHeld guarded', 'RollcallSyncFailing broken'];
  t.same(await firing(folder, before, after, 7), ['RollcallDeadLetters crm', ...standing]);
  t.same(await firing(folder, before, after, 90), standing, 'for as long as it is so');
  t.same(await firing(folder, before, after, 2 * DAY + 90), [
    ...standing,
    ...['broken', 'fine', 'guarded', 'unrun'].map((key) => `RollcallSyncOverdue ${key}`),
  ]);
});

interface Case {
  readonly alert_rule_test: readonly { readonly alertname: string; readonly exp_alerts: readonly object[] }[];
}

t.test('has a case for each rule in which it fires, and one in which it does not', async (t) => {
  const { groups } = parse(readFileSync(RULES, 'utf8'));
  const tests = ['.test.yaml', '.days.test.yaml'].flatMap(
    (end): readonly Case[] => parse(readFileSync(RULES.replace('.yaml', end), 'utf8')).tests,
  );
  const checks = tests.flatMap((each) => each.alert_rule_test);
  for (const { alert } of groups[0].rules) {
    const found = checks.filter(({ alertname }) => alertname === alert);
    t.ok(
      found.some(({ exp_alerts }) => exp_alerts.length > 0),
      `${alert} fires`,
    );
    t.ok(
      found.some(({ exp_alerts }) => exp_alerts.length === 0),
      `${alert} does not fire`,
    );
  }
});
