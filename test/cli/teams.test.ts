// biome-ignore-all lint/suspicious/noTemplateCurlyInString: variables of the configuration file
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import type { SyncPlan } from '../../jobs/index.ts';
import { planMarkdown } from '../../src/cli/output/plan-markdown.ts';
import type { ConfigDifference } from '../../src/config/difference.ts';
import { jsonLines, rollcall, start, workspace } from './helpers.ts';

const EXTRA = `audiences:
  - name: Extra
    description: For the win-back mails
    owner: growth
    labels: { tier: gold }
    source: personas
    sqlFile: extra.sql
`;

t.test('knows included files in every command, and reloads them', async (t) => {
  const { folder, config } = await workspace(t, 'http://127.0.0.1:9', 'include: [more/*.yaml]\n');
  await mkdir(join(folder, 'more'));
  await writeFile(join(folder, 'more/extra.yaml'), EXTRA);
  await writeFile(join(folder, 'more/extra.sql'), "select customer as user_id from read_csv('orders.csv')");
  t.match(await rollcall(['doctor', '-c', config]), { stdout: /with 2 files that it names is valid/ });
  t.match(await rollcall(['types', '-c', config]), { code: 0, stdout: /"extra": \{\}/ });
  t.match(jsonLines(await rollcall(['plan', 'extra', '-c', config, '--json'])), [{ key: 'extra', members: 3 }]);

  const service = start(['serve', '-c', config]);
  await service.stderr.match(/http:\/\/127\.0\.0\.1:\d+/);
  const about = { description: 'For the win-back mails', owner: 'growth', labels: { tier: 'gold' } };
  const listed = () => rollcall(['audiences', '-c', config, '--json']);
  t.match(jsonLines(await listed()), [{ key: 'big_spenders' }, { key: 'extra', ...about }]);
  t.match(await rollcall(['audiences', '-c', config]), { stdout: /owner.*\n.* -\n.* growth\n/ });
  t.match(await rollcall(['backup', join(folder, 'copy'), '-c', config]), { code: 0 });

  await writeFile(join(folder, 'more/extra.sql'), 'select 1 as user_id -- ${NOT_FILLED}');
  await writeFile(join(folder, 'more/extra.yaml'), EXTRA.replace('sqlFile', 'sqlFil'));
  process.emit('SIGHUP');
  await service.stderr.match(/The changed configuration was not applied/);
  await writeFile(join(folder, 'more/extra.yaml'), EXTRA);
  process.emit('SIGHUP');
  await service.stderr.match(/Configuration reloaded/);
  t.match(await service.stop(), { stderr: /extra\.yaml:7:5: audiences\[0\]\.sqlFil is not a known key/ });
});

const WHOLE = `
store: postgres://rollcall:HIDE-store@db/rollcall
admin: { token: HIDE-admin-token-000 }
alerts: { notify: [{ name: chat, url: "https://chat.example.com/HIDE-hook", format: slack }] }
sources: [{ id: shop, writeKey: HIDE-key }]
destinations:
  - name: crm
    sources: [shop]
    sharedSecret: [HIDE-secret, "\${OLD:-HIDE-old}"]
    webhooks: [{ url: "https://u:HIDE-password@crm.example.com/hooks?k=HIDE-query", headers: { x-key: HIDE-header } }]
engines:
  lake: { type: duckdb, secrets: { s: { type: s3, key_id: HIDE-id, secret: HIDE-s3 } } }
  far: { type: clickhouse, url: "https://u:HIDE-click@far.example.com/db", settings: { x: HIDE-setting } }
  own: { type: module, module: ./own.js, options: { password: HIDE-option } }
audiences:
  - name: Big Spenders
    source: shop
    schedule: "@daily"
    guard: { maxExits: 20% }
    sql: |
      select user_id
      from orders
      group by 1
traits:
  - { name: Spent, source: shop, sql: "select 1 as user_id" }
`;

t.test('shows the differences of two configurations, and no secrets', async (t) => {
  const folder = t.testdir({ 'old.yaml': WHOLE, 'new.yaml': WHOLE, sub: {} });
  const diff = async (text: string, ...options: readonly string[]) => {
    await writeFile(join(folder, 'new.yaml'), text);
    return rollcall(['config', 'diff', join(folder, 'old.yaml'), join(folder, 'new.yaml'), ...options]);
  };
  t.match(await diff(WHOLE), { code: 0, stdout: 'No difference.\n' });
  t.match(await diff(WHOLE, '--json'), { code: 0, stdout: '' });
  const changed = WHOLE.replaceAll('HIDE-', 'HIDE-other-')
    .replace('@daily', '@hourly')
    .replace('20%', '30%')
    .replace('from orders', 'from orders o\n      where amount > 5')
    .replace('name: Spent', 'name: Sum');
  const { code, stdout } = await diff(changed, '--json');
  t.equal(code, 1);
  const found = jsonLines<ConfigDifference>({ stdout });
  const brief = found.map(({ section, name, change, from, settings }) =>
    [section, name, change, from ?? '', ...settings.map(({ setting }) => setting)].join(' ').replace('  ', ' '),
  );
  t.same(brief.sort(), [
    'audiences big_spenders changed schedule guard definition',
    'destinations crm changed sharedSecret webhooks',
    'engines far changed url settings',
    'engines lake changed secrets',
    'engines own changed options',
    'settings admin changed admin',
    'settings alerts changed alerts',
    'settings store changed store',
    'sources shop changed writeKey',
    'traits sum renamed spent',
  ]);
  for (const text of [stdout, (await diff(changed)).stdout]) t.notMatch(text, 'HIDE');
  t.match(await diff(changed), {
    stdout:
      /big_spenders changed\n {4}schedule: @daily → @hourly\n.*guard: .*\n {4}definition\n {6}- from orders\n {6}\+ from orders o\n {6}\+ where amount > 5\n/,
  });
  const moved = `${WHOLE.slice(0, WHOLE.indexOf('traits:'))}include: [sub/x.yaml]\n`;
  await writeFile(
    join(folder, 'sub/x.yaml'),
    WHOLE.slice(WHOLE.indexOf('traits:')).replace('sql: "select 1 as user_id"', 'sqlFile: x.sql'),
  );
  await writeFile(join(folder, 'sub/x.sql'), 'select 1 as user_id');
  t.match(await diff(moved), { code: 0, stdout: 'No difference.\n' }, 'the same in another file');
  t.match(await diff(moved.replace(/audiences:.*include/s, 'include')), {
    code: 1,
    stdout: '- audiences: big_spenders removed\n',
  });
  t.match(await diff(WHOLE.replace('source: shop', 'source: shpo')), {
    code: 2,
    stderr: /new\.yaml:17:5: .*Did you mean shop/,
  });
});

t.test('checks a configuration without its variables', async (t) => {
  const { config } = await workspace(
    t,
    'http://127.0.0.1:9',
    `engines:
  lake: { type: duckdb }
  far: { type: postgres, url: "\${WAREHOUSE_URL}" }
traits:
  - { name: Spent, engine: far, source: personas, sql: select 1 as user_id }
  - { name: Late, source: personas, schedule: "\${WHEN}", sql: "select \${COLUMN} as user_id" }
  - { name: Wrong, source: personas, sql: select nothing as user_id }
delivery: { removedAfter: "\${KEPT}" }
`,
  );
  const text = await readFile(config, 'utf8');
  await writeFile(
    config,
    text.replace(/store: .*/, 'store: "${ROLLCALL_STORE}"').replace('s3cret', '"${SECRET}", rateLimit: "${RATE}"'),
  );
  t.match(await rollcall(['config', 'check', '-c', config]), { code: 2, stderr: /has 7 mistakes/ });
  const checked = await rollcall(['config', 'check', '-c', config, '--no-env', '--sql']);
  t.match(checked, { code: 1, stdout: /1 definition of 4 can be run\./ });
  t.match(checked.stderr, /Not set: ROLLCALL_STORE, SECRET, RATE, WAREHOUSE_URL, WHEN, COLUMN, KEPT\./);
  t.match(checked.stderr, /spent was not tried: it needs WAREHOUSE_URL\./);
  t.match(checked.stderr, /late was not tried: it needs COLUMN\./);
  t.match(checked.stderr, /sql_failed: .*rollcall\.yaml:18: wrong: /);
  const lines = jsonLines(await rollcall(['config', 'check', '-c', config, '--no-env', '--sql', '--json']));
  t.match(lines, [{ unset: ['ROLLCALL_STORE', 'SECRET'] }, { key: 'spent' }, { key: 'late' }, { error: { line: 18 } }]);
  await writeFile(
    config,
    text.replace('personas-key', '"${KEY}"').replace('maxExits: 50%', 'maxExits: "${MOST}", minMembrs: 5'),
  );
  t.match(await rollcall(['config', 'check', '-c', config, '--no-env']), {
    code: 2,
    stderr: /has a mistake:.*minMembrs/s,
  });
});

t.test('prints plans as Markdown that foreign ids cannot break, of bounded size', async (t) => {
  const ids = ['`a` | b', '<img src=x>', '@team #1 https://x.example.com', 'x\n| y |'];
  const sql = `select user_id from (values ${ids.map((id) => `('${id}')`).join(', ')}) t (user_id)`;
  const audiences = (many: number) =>
    Array.from({ length: many }, (_, each) => ({ name: `Odd ${each}`, source: 'personas', sql }));
  const { folder, config } = await workspace(t, 'http://127.0.0.1:9', 'include: [odd.yaml]\n');
  await writeFile(join(folder, 'odd.yaml'), JSON.stringify({ audiences: audiences(3) }));
  const { code, stdout } = await rollcall(['plan', '-c', config, '--markdown']);
  t.equal(code, 0);
  t.match(stdout, /^### What a sync would send\n\n\| audience or trait \|/);
  t.equal(stdout.split('\n').filter((line) => line.startsWith('|')).length, 2 + 4);
  t.match(stdout, /<li><code>&#64;team/);
  const foreign = stdout.replaceAll(/<\/?(code|details|summary|ul|li)>/g, '');
  t.notMatch(foreign, /[<>`@]|https:|team #/, 'no markup of theirs');
  const [plan] = jsonLines<SyncPlan>(await rollcall(['plan', 'odd_0', '-c', config, '--json']));
  const planned = Array.from({ length: 2_000 }, (_, each) => ({
    plan: { ...plan, key: `odd_${each}`, held: 'x'.repeat(5_000), sample: [] } as unknown as SyncPlan,
  }));
  const long = planMarkdown(planned);
  t.ok(long.length > 50_000 && long.length < 61_000, String(long.length));
  t.match(long, /\nAnd \d+ more\.$/);
  t.match(await rollcall(['plan', '-c', config, '--markdown', '--json']), { code: 2 });
});
