import { appendFile, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import t, { type Test } from 'tap';
import { jsonLines, listen, rollcall, workspace } from '../cli/helpers.ts';
import { startFastPostgres } from '../helpers/postgres.ts';
import { type PythonTools, pythonTools } from '../helpers/python.ts';

// Later versions of dbt-core fetch a parser that PyPI does not have, and later ones of DuckDB write files that ours can't read.
const tools = await pythonTools('dbt', [
  'dbt-core==1.10.*',
  'dbt-postgres==1.9.*',
  'dbt-duckdb==1.9.*',
  'duckdb==1.5.*',
]);
const skip = typeof tools === 'string' ? tools : false;
if (skip) t.comment(`Skipped: ${skip}`);

const MODEL = `select customer_id as user_id, sum(amount) as spent from {{ ref('orders') }}
group by 1 having sum(amount) > {{ env_var('LEAST', '50') }}
`;

/** Has each case in a database: how dbt gets there, and the engine of Rollcall that reads what it builds. */
const DATABASES = {
  duckdb: async (_: Test, folder: string) => {
    const path = join(folder, 'analytics/dev.duckdb');
    return {
      profile: { type: 'duckdb', path },
      engine: `{ type: duckdb, path: ./a.duckdb, attach: { dev: { type: duckdb, path: ${path} } } }`,
    };
  },
  postgres: async (t: Test) => {
    const postgres = await startFastPostgres();
    t.teardown(() => postgres.stop());
    const url = new URL(await postgres.database());
    const client = new pg.Client(`${url}`);
    await client.connect();
    const { rows } = await client.query('select current_user as user, current_database() as dbname');
    await client.end();
    const host = url.searchParams.get('host') ?? url.hostname;
    const password = decodeURIComponent(url.password) || 'none';
    const port = Number(url.port || 5432);
    return {
      profile: { type: 'postgres', schema: 'marts', threads: 1, ...rows[0], host, port, password },
      engine: `{ type: postgres, url: "${url}" }`,
    };
  },
};

for (const [name, database] of Object.entries(DATABASES)) {
  t.test(`sends what a real dbt built in ${name} and tested`, { skip }, async (t) => {
    const { run } = tools as PythonTools;
    const listener = await listen(t);
    const { folder, config } = await workspace(t, listener.url, 'include: [team/*.yaml]\n');
    const project = join(folder, 'analytics');
    const { profile, engine } = await database(t, folder);
    for (const sub of ['models', 'tests']) await mkdir(join(project, sub), { recursive: true });
    await mkdir(join(folder, 'team'));
    const write = (path: string, text: string) => writeFile(join(folder, path), text);
    await write('analytics/dbt_project.yml', 'name: analytics\nprofile: p\nmodels: { +materialized: table }\n');
    await write('analytics/profiles.yml', JSON.stringify({ p: { target: 'dev', outputs: { dev: profile } } }));
    const orders = (values: string) =>
      write('analytics/models/orders.sql', `select * from (values ${values}) as o(customer_id, amount)\n`);
    await orders("('u1', 60), ('u2', 70), ('u3', 10)");
    await write('analytics/models/big_spenders.sql', MODEL);
    const tests = '[{ name: user_id, data_tests: [not_null, unique] }]';
    await write('analytics/models/schema.yml', `models: [{ name: big_spenders, columns: ${tests} }]\n`);
    await write(
      'team/dbt.yaml',
      `engines: { warehouse: ${engine} }
audiences:
  - name: Fans
    engine: warehouse
    source: personas
    dbt: { project: ../analytics, model: big_spenders }
    with: [spent]
    guard: off
    expect: { dbt: pass, within: 1h }
traits: [{ name: Total, engine: warehouse, source: personas, dbt: { project: ../analytics, model: big_spenders } }]
`,
    );
    const dbt = async (command: string, least = '50', code = 0) => {
      const env = { LEAST: least, DBT_SEND_ANONYMOUS_USAGE_STATS: 'false', DBT_PROFILES_DIR: project };
      const finished = await run('dbt', ['--no-use-colors', ...command.split(' ')], { cwd: project, env });
      t.equal(finished.code, code, `dbt ${command}: ${finished.output.trim().split('\n').at(-1)}`);
    };
    const sync = async (...args: string[]) => {
      const { code, stdout, stderr } = await rollcall(['sync', 'fans', '--once', '--json', '-c', config, ...args]);
      t.comment(`rollcall sync: exit code ${code}${stderr && `, ${stderr.split('\n')[0]}`}`);
      return { code, run: jsonLines<Record<string, unknown>>({ stdout })[0] ?? {} };
    };
    const held = async (reason: RegExp, ...args: string[]) => {
      t.match(jsonLines(await rollcall(['plan', 'fans', '--json', '-c', config])), [{ held: args[0] ? null : reason }]);
      const { code, run } = await sync(...args);
      t.match({ code, run }, { code: 3, run: { state: 'held', reason, sent: 0 } });
      t.comment(`${run['reason']}`);
      t.match(await rollcall(['reject', `${run['run']}`, '-c', config]), { code: 0 });
    };

    t.match(await rollcall(['plan', 'fans', '--sql', '-c', config]), {
      code: 1,
      stderr: /dbt_stale: .*Run `dbt compile`/,
    });
    await dbt('build');
    await dbt('compile');
    await held(/last command of dbt was "compile"/);
    await dbt('build');
    t.match(await sync(), { code: 0, run: { state: 'done', entered: 2, sent: 2 } }, 'green');
    t.match(await rollcall(['plan', 'fans', '--sql', '-c', config]), { stdout: /SELECT \* FROM ".*"\."big_spenders"/ });
    t.match(await rollcall(['sync', 'total', '--once', '--json', '-c', config]), { code: 0, stdout: /"entered":2/ });

    await orders("('u1', 60), ('u2', 70), ('u3', 90)");
    await dbt('run');
    await held(/the test not_null_big_spenders_user_id was not run, the test unique_big_spenders_user_id was not run/);
    await dbt('build');
    t.match(await sync(), { code: 0, run: { entered: 1, reasons: { entered: 1 } } });

    await write('analytics/models/big_spenders.sql', `${MODEL}union all select 'u1', 5\n`);
    t.match((await sync()).run, { state: 'failed', code: 'dbt_stale', reason: /big_spenders\.sql was edited since/ });
    await dbt('build', '50', 1);
    await held(/the test unique_big_spenders_user_id failed;/);

    await write('analytics/tests/enough.sql', "select 1 from {{ ref('orders') }} having count(*) < 100\n");
    await appendFile(join(project, 'models/big_spenders.sql'), '-- edited\n');
    await dbt('build', '50', 1);
    await held(/the model big_spenders was skipped;/);

    await rm(join(project, 'tests/enough.sql'));
    await write('analytics/models/big_spenders.sql', MODEL.replace('> ', '>= '));
    await dbt('build', '70');
    await held(/The last build of dbt is old: it ended at/, '--now', new Date(Date.now() + 7_200_000).toISOString());
    t.match(await sync(), { code: 0, run: { exited: 1, reasons: { definition: 1 } } }, 'an edited model');
    const told = (await listener.stop()).map(({ body }) => `${body.userId} ${body.traits?.['fans']}`);
    t.same(told.filter((each) => !each.endsWith('undefined')).sort(), ['u1 false', 'u1 true', 'u2 true', 'u3 true']);
  });
}
