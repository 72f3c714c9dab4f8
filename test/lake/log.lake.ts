import { spawn, spawnSync } from 'node:child_process';
import { existsSync, globSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import type { App } from '../../src/app.ts';
import { EVENTS_VIEW, statementOf } from '../events/helpers/documented.ts';
import { loggingService, send } from '../events/helpers/logging-app.ts';
import { type AudienceDialect, eventOf, YEAR_AUDIENCES, YEAR_DATES } from '../events/helpers/year.ts';
import { startS3 } from '../helpers/s3.ts';
import { until } from '../helpers/until.ts';

const DAY = 86_400_000;
const EVENTS = 3_000;
const VENV = join(import.meta.dirname, 'node_modules/.python');
const PACKAGES = ['pyspark==3.5.5', 'chdb==4.4.0', 'duckdb==1.5.5', 'duckdb-extension-httpfs==1.5.5'];
const HADOOP = 'org.apache.hadoop:hadoop-aws:3.3.4';

const run = (command: string, ...given: string[]) => spawnSync(command, given, { encoding: 'utf8' }).status === 0;
const python = join(VENV, 'bin/python');
const isInstalled =
  (existsSync(python) || run('python3', '-m', 'venv', VENV)) &&
  run(python, '-m', 'pip', 'install', '--quiet', ...PACKAGES);
const skip = isInstalled ? false : `pip can't install ${PACKAGES.join(', ')}`;
if (skip) t.comment(`Skipped: ${skip}`);

const time = (iso: string, days = 0) =>
  new Date(Date.parse(iso) - days * DAY).toISOString().slice(0, -1).replace('T', ' ');
const ISO: AudienceDialect['at'] = (iso, days) => `timestamp '${time(iso, days)}'`;

interface Engine {
  readonly dialect: AudienceDialect;
  /** The statements that make the view `files`, for a place of the log. */
  readonly files: (place: Place) => readonly string[];
  readonly settings?: (place: Place) => Readonly<Record<string, string>>;
}

interface Place {
  readonly path: string;
  /** Of a bucket; null for a folder. */
  readonly endpoint: string | null;
}

const ENGINES: Readonly<Record<string, Engine>> = {
  duckdb: {
    dialect: {
      text: (column, name) => `(${column} ->> '$.${name}')`,
      number: (column, name) => `cast((${column} ->> '$.${name}') as double)`,
      at: ISO,
    },
    files: ({ path, endpoint }) => [
      ...(endpoint
        ? [
            `LOAD '${globSync(join(VENV, 'lib/**/httpfs.duckdb_extension'))[0]}'`,
            `CREATE SECRET (TYPE s3, KEY_ID 'KEY', SECRET 's3cret-s3cret', REGION 'us-east-1', ENDPOINT '${endpoint.replace('http://', '')}', USE_SSL false, URL_STYLE 'path')`,
          ]
        : []),
      statementOf('DuckDB').replace('s3://bucket/rollcall/events', path),
    ],
  },
  clickhouse: {
    dialect: {
      text: (column, name) => `JSONExtractString(${column}, '${name}')`,
      number: (column, name) => `JSONExtractFloat(${column}, '${name}')`,
      at: (iso, days) => `toDateTime64('${time(iso, days)}', 6, 'UTC')`,
    },
    files: ({ path, endpoint }) => [
      endpoint
        ? statementOf('ClickHouse')
            .replace('https://s3.eu-central-1.amazonaws.com/bucket/rollcall/events', path.replace('s3:/', endpoint))
            .replace("'KEY', 'SECRET'", "'KEY', 's3cret-s3cret'")
        : statementOf('ClickHouse').replace(/s3\(\s*'[^']*events(.*?)', 'KEY', 'SECRET', /, `file('${path}$1', `),
    ],
  },
  spark: {
    dialect: {
      text: (column, name) => `get_json_object(${column}, '$.${name}')`,
      number: (column, name) => `cast(get_json_object(${column}, '$.${name}') as double)`,
      at: (iso, days) => `timestamp_ntz'${time(iso, days)}'`,
    },
    settings: ({ endpoint }) =>
      endpoint
        ? {
            'spark.jars.packages': HADOOP,
            'spark.hadoop.fs.s3a.endpoint': endpoint,
            'spark.hadoop.fs.s3a.access.key': 'KEY',
            'spark.hadoop.fs.s3a.secret.key': 's3cret-s3cret',
            'spark.hadoop.fs.s3a.path.style.access': 'true',
          }
        : {},
    files: ({ path }) => [statementOf('Spark').replace('s3a://bucket/rollcall/events', path.replace('s3:', 's3a:'))],
  },
};

/** Answers of an engine in Python. */
async function ask(name: string, place: Place, queries: Readonly<Record<string, string>>) {
  const { files, settings } = ENGINES[name] as Engine;
  const view = name === 'spark' ? EVENTS_VIEW.replace('CREATE VIEW', 'CREATE TEMP VIEW') : EVENTS_VIEW;
  const statements = [...files(place), view];
  const child = spawn(python, [join(import.meta.dirname, 'readers.py')], { env: { ...process.env, TZ: 'UTC' } });
  const said = Promise.all([text(child.stdout), text(child.stderr)]);
  child.stdin.end(JSON.stringify({ engine: name, statements, queries, settings: settings?.(place) ?? {} }));
  const [stdout, stderr] = await said;
  const line = stdout.trim().split('\n').at(-1) ?? '';
  if (!line.startsWith('{')) throw new Error(stderr.slice(-3_000));
  return JSON.parse(line) as { version: string; answers: Record<string, (string | number)[][]> };
}

/** A log with files that were replaced a moment ago, and the members that Rollcall finds. */
async function logOf(t: Test, eventLog: object) {
  const service = loggingService(t);
  const now = service.clock.now();
  const events = Array.from({ length: EVENTS }, (_, n) => eventOf(n, now));
  for (let from = 0; from < EVENTS; from += 1_000) {
    const collector = await service.open([], { eventLog });
    await collector.start({ collect: true, schedules: false });
    for (const at of [from, from + 500]) await send(collector, events.slice(at, at + 500));
    await collector.close();
  }
  service.advance(DAY);
  const audiences = YEAR_AUDIENCES.map(({ key, when }) => ({
    ...{ name: key, key, when, source: 'personas', guard: { allowEmpty: true, maxExits: '100%' } },
  }));
  const app = await service.open(audiences, { eventLog });
  await app.start({ collect: true, schedules: false });
  const { events: log } = app.store;
  await until(async () => log.kind === 'files' && (await log.state()).files.length === 1);
  const members: Record<string, readonly string[]> = {};
  const dates = YEAR_DATES.map((days) => new Date(now + days * DAY).toISOString());
  for (const date of dates) {
    for (const { key, error } of await app.sync.run([], { now: Date.parse(date) }))
      if (error) throw new Error(`${key}: ${error.message}`);
    for (const { key } of YEAR_AUDIENCES) members[`${key} ${date}`] = await membersOf(app, key);
  }
  return { folder: service.folder, members, dates };
}

async function membersOf(app: App, key: string): Promise<readonly string[]> {
  const found: string[] = [];
  await app.sync.members(key, async ({ userIds }) => void found.push(...userIds));
  return found.toSorted();
}

for (const kind of ['folder', 'bucket'] as const) {
  t.test(`other engines find the members that Rollcall finds, in the log's ${kind}`, { skip }, async (t) => {
    const s3 = await startS3(t);
    const { folder, members, dates } = await logOf(t, kind === 'bucket' ? s3.settings : { path: './events' });
    const place =
      kind === 'bucket'
        ? { path: s3.settings.path, endpoint: s3.endpoint }
        : { path: join(folder, 'events'), endpoint: null };
    for (const [name, { dialect }] of Object.entries(ENGINES)) {
      const asked = YEAR_AUDIENCES.flatMap(({ key, sql }) =>
        dates.map((date) => [`${key} ${date}`, sql(dialect, date)]),
      );
      const counts = { files: 'SELECT count(*) FROM files', events: 'SELECT count(*) FROM events' };
      const { version, answers } = await ask(name, place, { ...Object.fromEntries(asked), ...counts });
      t.comment(`${name} ${version}, ${kind}`);
      for (const [question, theirs] of Object.entries(members)) {
        const found = answers[question]?.map(([id]) => String(id)).toSorted();
        t.strictSame(found, theirs, `${name} ${version}: ${question}: ${theirs.length} members`);
      }
      t.equal(Number(answers['events']?.[0]?.[0]), EVENTS);
      t.equal(Number(answers['files']?.[0]?.[0]), 2 * EVENTS, 'the replaced files are still there');
    }
    t.ok(
      Object.values(members).some(({ length }) => length > 50),
      'there was somebody to find',
    );
  });
}
