/**
 * How long answers of the management API take over a large store: `--deliveries` waiting (a million unless given), as many dead letters
 * as a tenth of them, `--attempts` in the log (ten million), and an audience of `--members` (a million), on SQLite with DuckDB and on
 * Postgres. `--estate` takes 50 destinations, 40 audiences, 600,000 attempts and 25,000 letters instead. Each route is asked `--times`
 * times (60), in turn; what counts is p95 in milliseconds, which is to stay under 100. A person in 20 audiences with a
 * million members is asked for ten times as often, in a row; its p99 is to stay under 20. `--person` measures that alone, on an estate
 * without other audiences. `paint` is the first paint of the slowest view in Chromium
 * that has no file of the pages yet, `shown` the time until its data is there, p95 of ten; `paint` is to stay under 300.
 */
import { createHash } from 'node:crypto';
import { rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { pino } from 'pino';
import { PAGES } from '../src/admin/page-lists.ts';
import { App } from '../src/app.ts';
import { parseConfig } from '../src/config/load.ts';
import { HISTORY_STEPS, HISTORY_SUBJECTS, type Run, STEP_LENGTH, stepOf } from '../src/store/port.ts';
import { migratePostgres } from '../src/store/postgres/migrate.ts';
import { HISTORY_COLUMNS } from '../src/store/records/history.ts';
import { settled } from '../test/admin/browser.ts';
import { launchBrowser, withoutBrowser } from '../test/helpers/chromium.ts';
import { BODY, ESTATE, fillSqlite } from '../test/helpers/fill-store.ts';
import { startPostgres } from '../test/helpers/postgres.ts';
import { compare, type Figures } from './harness.ts';

const { values } = parseArgs({
  strict: false,
  options: {
    deliveries: { type: 'string' },
    attempts: { type: 'string' },
    members: { type: 'string' },
    times: { type: 'string' },
    estate: { type: 'boolean' },
    person: { type: 'boolean' },
  },
});
/** True if nothing but a person is asked for. */
const PERSON_ALONE = values['person'] === true;
const SIZES = values['estate'] || PERSON_ALONE ? { ...ESTATE, deliveries: 0, members: 20_000 } : null;
const DELIVERIES = Number(values['deliveries'] ?? SIZES?.deliveries ?? 1_000_000);
const LETTERS = SIZES?.letters ?? DELIVERIES / 10;
const ATTEMPTS = Number(values['attempts'] ?? SIZES?.attempts ?? 10_000_000);
const MEMBERS = Number(values['members'] ?? SIZES?.members ?? 1_000_000);
const TIMES = Number(values['times'] ?? 60);
const DESTINATIONS = SIZES?.destinations ?? 1_000;
const EVENTS = 20_000;
const AUDIENCES = SIZES?.audiences ?? 300;

/** Somebody in all crowds, asked for in a row, as a warm look-up is. */
const PERSON = `/people/${createHash('md5').update('17').digest('hex')}`;
const ROUTES = {
  overview: '/overview',
  endpoints: '/endpoints',
  destinations: '/destinations',
  audiences: '/audiences',
  runs: '/runs',
  attempts: '/attempts',
  attemptsOfOne: '/attempts?userId=nobody',
  attemptsOfOld: '/attempts?endpoint=e0',
  attemptsRefused: '/attempts?outcome=refused&destination=d7',
  letters: '/dead-letters',
  lettersOfOld: '/dead-letters?destination=d0',
  lettersOfOne: '/dead-letters?userId=nobody',
  messages: '/messages',
  messagesOfOne: '/messages?userId=nobody',
  messagesDelivered: '/messages?state=delivered',
  messagesOfEvent: '/messages?event=Nothing',
  history: '/history',
  historyOfOne: '/history?of=destination&name=d7',
  historySums: '/history/sums?of=destination&limit=500',
  discards: '/discards',
  audit: '/audit',
  standings: '/destinations/d7',
} as const;

/** Drafts for `/try`: a short definition over the log, and SQL. */
const DRAFTS = {
  tryShort: { name: 'Draft', source: 'shop', when: { performed: 'Order', atLeast: 2, within: '30 days' } },
  trySql: { name: 'Draft', source: 'shop', sql: 'select user_id from tracks group by user_id having count(*) > 1' },
};
const tried = (draft: object) => ({ method: 'POST', body: JSON.stringify({ draft, parts: ['people'] }) });

/** Progress; standard output belongs to the table. */
const say = (text: string) => console.error(`  ${text}`);

const folder = await mkdtemp(join(import.meta.dirname, '.admin-'));
const server = await startPostgres(['fsync = off', 'max_wal_size = 4GB']);

/** One that is long, and in no destination. */
const LONG = {
  duckdb: `select 'user-' || range as user_id from range(${MEMBERS})`,
  postgres: `select 'user-' || n as user_id from generate_series(1, ${MEMBERS}) as n`,
};
/** A million members in 20 audiences, in no order, however large the rest is. */
const CROWDS = Array.from({ length: 20 }, (_, n) => `crowd ${n}`);
const IN_A_CROWD = 1_000_000 / CROWDS.length;
const CROWD = {
  duckdb: `select md5(range::varchar) as user_id from range(${IN_A_CROWD}) order by hash(range)`,
  postgres: `select md5(n::text) as user_id from generate_series(1, ${IN_A_CROWD}) as n order by md5(n::text)`,
};
const HALF = `user-${MEMBERS >> 1}`;
const cursor = (place: string) => Buffer.from(place).toString('base64url');

const TOKEN = 'a-token-of-the-bench';

const others = (isSqlite: boolean) => [
  ...Array.from({ length: AUDIENCES - 1 }, (_, n) => ({ name: `a ${n}`, source: 'shop', sql: 'select 1 as user_id' })),
  { name: 'long', source: 'shop', sql: isSqlite ? LONG.duckdb : LONG.postgres },
];

function configOf(store: string) {
  const isSqlite = store.startsWith('sqlite:');
  const text = JSON.stringify({
    store,
    listen: { host: '127.0.0.1', port: 0 },
    admin: { token: TOKEN },
    sources: [{ id: 'shop', writeKey: 'key' }],
    eventLog: isSqlite ? { path: join(folder, 'events') } : {},
    // Disabled, so that what waits goes on waiting.
    destinations: Array.from({ length: DESTINATIONS }, (_, n) => ({
      ...{ name: `d${n}`, enabled: false, sources: ['shop'], webhookUrl: `http://127.0.0.1:9/${n}` },
    })),
    audiences: [
      ...CROWDS.map((name) => ({ name, source: 'shop', sql: isSqlite ? CROWD.duckdb : CROWD.postgres })),
      ...(PERSON_ALONE ? [] : others(isSqlite)),
    ],
    engines: {
      lake: isSqlite ? { type: 'duckdb', path: join(folder, 'audiences.duckdb') } : { type: 'postgres', url: store },
    },
  });
  return parseConfig(text, { file: 'rollcall.yaml', folder, env: {} });
}

const p95 = (all: readonly number[]) => all.toSorted((a, b) => a - b)[Math.floor(all.length * 0.95)] ?? Number.NaN;

/** How often each view is loaded. */
const LOADS = 10;
const FIRST_PAINT = `performance.getEntriesByName('first-contentful-paint')[0]?.startTime`;

/** Loads every view that needs no id, each time in a browser that knows nothing of it. */
async function paints(address: string): Promise<Figures> {
  if (withoutBrowser) return {};
  const browser = await launchBrowser();
  let figures = { paint: 0, shown: 0 };
  for (const { path, title } of PAGES) {
    if (title === undefined) continue;
    const [painted, shown]: [number[], number[]] = [[], []];
    for (let load = 0; load <= LOADS; load += 1) {
      const context = await browser.newContext({ baseURL: address });
      await context.request.post('/api/v1/session', { data: { token: TOKEN } });
      const page = await context.newPage();
      await page.goto(path);
      await settled(page);
      // The first load pays for reading the files.
      if (load > 0) {
        shown.push(Number(await page.evaluate('performance.now()')));
        painted.push(Number(await page.evaluate(FIRST_PAINT)));
      }
      await context.close();
    }
    say(`${path} paints in ${Math.round(p95(painted))} ms and shows its data in ${Math.round(p95(shown))}`);
    figures = { paint: Math.max(figures.paint, p95(painted)), shown: Math.max(figures.shown, p95(shown)) };
  }
  await browser.close();
  return figures;
}

type Ask = (name: string, path: string, init?: RequestInit) => Promise<void>;

/** The figures are each route's p95, and p99 for the person. */
async function measure(store: string): Promise<Figures> {
  const app = await App.create(configOf(store), { log: pino({ level: 'silent' }) });
  const took = new Map<string, number[]>();
  const ask: Ask = async (name, path, init = {}) => {
    const started = performance.now();
    const headers = {
      authorization: `Bearer ${TOKEN}`,
      ...(init.body ? { 'content-type': 'application/json' } : {}),
    };
    const response = await fetch(`${app.address}${path}`, { ...init, headers });
    const text = await response.text();
    if (response.status !== 200) throw new Error(`${name} answers ${response.status}: ${text}`);
    took.set(name, [...(took.get(name) ?? []), performance.now() - started]);
  };
  let painted: Figures = {};
  try {
    await app.start({ collect: true, schedules: false });
    const [known] = await app.store.runs({ key: 'crowd_0', limit: 1 });
    if (!known) await app.sync.run(CROWDS.map((name) => name.replace(' ', '_')));
    if (!PERSON_ALONE) await askAll(app, took, ask);
    for (let time = 0; time <= 10 * TIMES; time += 1) {
      await ask('personP99', `/api/v1${PERSON}`);
      if (time === 0) took.delete('personP99');
    }
    if (!PERSON_ALONE) painted = await paints(app.address as string);
  } finally {
    await app.close();
  }
  const part = (all: readonly number[], share: number) =>
    all.toSorted((a, b) => a - b)[Math.floor(all.length * share)] ?? Number.NaN;
  const figures = [...took].map(([name, all]) => [name, part(all, name === 'personP99' ? 0.99 : 0.95)] as const);
  return { ...Object.fromEntries(figures), ...painted };
}

/** Asks every route in turn. */
async function askAll(app: App, took: Map<string, number[]>, ask: Ask): Promise<void> {
  const [known] = await app.store.runs({ key: 'long', limit: 1 });
  const [run = known] = known ? [] : ((await app.sync.run(['long']))[0]?.runs ?? []);
  if (!known) await logEvents(app.address ?? '');
  const routes = {
    ...ROUTES,
    members: '/audiences/long/members',
    membersLater: `/audiences/long/members?limit=500&cursor=${cursor(HALF)}`,
    changes: `/runs/${run?.id}/changes`,
    changesLater: `/runs/${run?.id}/changes?limit=500&cursor=${cursor(`0:${HALF}`)}`,
  };
  say('asking');
  for (let time = 0; time <= TIMES; time += 1) {
    for (const [name, path] of Object.entries(routes)) await ask(name, `/api/v1${path}`);
    await ask('metrics', '/metrics');
    for (const [name, draft] of Object.entries(DRAFTS)) await ask(name, '/api/v1/try', tried(draft));
    // The first answers pay for what is compiled and cached.
    if (time === 0) took.clear();
  }
}

/** A little log for drafts. */
async function logEvents(address: string): Promise<void> {
  for (let from = 0; from < EVENTS; from += 500) {
    const batch = Array.from({ length: 500 }, (_, n) => ({
      ...{ type: 'track', event: 'Order', userId: `user-${(from + n) % 5_000}` },
    }));
    const headers = { 'content-type': 'application/json', authorization: `Basic ${btoa('key:')}` };
    await (await fetch(`${address}/v1/batch`, { method: 'POST', headers, body: JSON.stringify({ batch }) })).text();
  }
}

async function sqlite(): Promise<string> {
  const path = join(folder, 'rollcall.db');
  await (await App.create(configOf(`sqlite:${path}`), { log: pino({ level: 'silent' }) })).close();
  const endpoints = Array.from({ length: DESTINATIONS }, (_, n) => [`d${n}`, `e${n}`] as const);
  fillSqlite(path, { endpoints, deliveries: DELIVERIES, letters: LETTERS, attempts: ATTEMPTS });
  const db = new DatabaseSync(path);
  db.exec('BEGIN');
  db.exec(
    historySql(
      'rollup',
      (count, name) =>
        `(WITH RECURSIVE g(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g WHERE n < ${count}) SELECT n FROM g) AS ${name}`,
    ),
  );
  db.exec(
    runsSql(
      'run',
      (count, name) =>
        `(WITH RECURSIVE g(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g WHERE n < ${count}) SELECT n FROM g) AS ${name}`,
    ),
  );
  db.exec('COMMIT');
  db.close();
  return `sqlite:${path}`;
}

async function postgres(): Promise<string> {
  const url = await server.database();
  await migratePostgres(url);
  const client = new pg.Client(url);
  await client.connect();
  // A failure also ends the server: its error here is not the cause.
  client.on('error', () => {});
  const now = Date.now();
  await client.query(`INSERT INTO rollcall.delivery (destination, rank, state, due_at, tries, source, type, message_id, user_id, accepted_at,
    body) SELECT 'd' || n % ${DESTINATIONS}, 1, 0, ${now}, 0, 'shop', 1, 'm' || n, 'u' || n, ${now}, '${BODY}' FROM generate_series(1, ${DELIVERIES}) n`);
  await client.query(`INSERT INTO rollcall.dead_letter (id, destination, lane, source, type, message_id, user_id, reason, tries, accepted_at,
    last_at, body) SELECT n, 'd' || n % ${DESTINATIONS}, 1, 'shop', 1, 'm' || n, 'u' || n, 'refused', 1, ${now}, ${now}, '${BODY}'
    FROM generate_series(1, ${LETTERS}) n`);
  await client.query(`INSERT INTO rollcall.attempt (at, delivery, destination, endpoint, source, type, message_id, user_id, outcome, ms)
    SELECT ${now}, n, 'd' || n % ${DESTINATIONS}, 'e', 'shop', 1, 'm' || n, 'u' || n, 0, 3 FROM generate_series(1, ${ATTEMPTS}) n`);
  await client.query(`INSERT INTO rollcall.backlog (destination, part, pending, dead, queued, held_out)
    SELECT 'd' || n, 0, ${DELIVERIES / DESTINATIONS}, ${LETTERS / DESTINATIONS}, ${DELIVERIES / DESTINATIONS}, 0 FROM generate_series(0, ${DESTINATIONS - 1}) n`);
  await client.query(historySql('rollcall.rollup', (count, name) => `generate_series(1, ${count}) AS ${name}(n)`));
  say('analysing');
  await client.query(runsSql('rollcall.run', (count, name) => `generate_series(1, ${count}) AS ${name}(n)`));
  await client.query('ANALYZE');
  await client.end();
  return url;
}

const filled = new Map<string, Promise<string>>();

/** Fifty runs of each audience. */
function runsSql(table: string, series: (count: number, name: string) => string): string {
  const now = Date.now();
  const record: Omit<Run, 'id' | 'key' | 'startedAt' | 'finishedAt'> = {
    ...{
      kind: 'audience',
      action: 'sync',
      state: 'done',
      phase: 'done',
      first: false,
      members: 1_000,
      entered: 5,
      exited: 4,
    },
    ...{
      changed: 0,
      invalid: 0,
      duplicates: 0,
      held: false,
      reason: null,
      code: null,
      sent: 9,
      cursor: null,
      fromVersion: 1,
    },
    ...{ toVersion: 2, definitionHash: '0123456789abcdef', destinations: ['d1', 'd2'], asOf: now, epoch: 0 },
  };
  const at = `${now} - r.n * ${15 * STEP_LENGTH.minute}`;
  const text = JSON.stringify(record).slice(0, -1);
  return `INSERT INTO ${table} (id, key, state, started_at, cursor, sent, record)
    SELECT 'r' || a.n || '-' || r.n, 'a_' || (a.n - 1), 'done', ${at}, NULL, 9,
      '${text},"id":"r' || a.n || '-' || r.n || '","key":"a_' || (a.n - 1) || '","startedAt":' || (${at}) || ',"finishedAt":' || (${at}) || '}'
    FROM ${series(AUDIENCES - 1, 'a')}, ${series(50, 'r')}`;
}

/** Six hours of every destination, as the service writes them; without its hours and days, of which there are few. */
function historySql(table: string, series: (count: number, name: string) => string): string {
  const begin = stepOf(Date.now(), 'minute') - 360 * STEP_LENGTH.minute;
  const figures: Readonly<Record<string, number>> = { delivered: 100, took_1: 5, took_2: 80, took_3: 10, pending: 9 };
  const values = HISTORY_COLUMNS.map((column) =>
    column === 'members' ? 'CAST(NULL AS bigint)' : String(figures[column] ?? 0),
  );
  const subject = HISTORY_SUBJECTS.indexOf('destination');
  const at = `${begin} + (m.n - 1) * ${STEP_LENGTH.minute}`;
  return `INSERT INTO ${table} (subject, name, step, at, ${HISTORY_COLUMNS.join(', ')})
    SELECT ${subject}, 'd' || (d.n - 1), ${HISTORY_STEPS.indexOf('minute')}, ${at}, ${values.join(', ')}
    FROM ${series(360, 'm')}, ${series(DESTINATIONS, 'd')}
    UNION ALL SELECT ${HISTORY_SUBJECTS.indexOf('all')}, '', ${HISTORY_STEPS.indexOf('minute')}, ${at}, ${values.join(', ')}
    FROM ${series(360, 'm')}`;
}

async function filling(name: string, fill: () => Promise<string>): Promise<string> {
  const started = performance.now();
  say(`filling ${name}: ${DELIVERIES} deliveries, ${ATTEMPTS} attempts`);
  const url = await fill();
  say(`filled ${name} in ${Math.round((performance.now() - started) / 1000)} s`);
  return url;
}

/** Filled once for all rounds. */
const storeOf = (name: string, fill: () => Promise<string>) => {
  if (!filled.has(name)) filled.set(name, filling(name, fill));
  return filled.get(name) as Promise<string>;
};

const cleanUp = async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
};
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => void cleanUp().then(() => process.exit(1)));

try {
  await compare({
    name: 'admin',
    contenders: {
      sqlite: async () => measure(await storeOf('sqlite', sqlite)),
      postgres: async () => measure(await storeOf('postgres', postgres)),
    },
  });
} finally {
  await cleanUp();
}
