import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { jsonLines, listen, rollcall, workspace } from '../cli/helpers.ts';
import { installedCommand } from '../helpers/installed-command.ts';
import { type PythonTools, pythonTools } from '../helpers/python.ts';

const EXAMPLES = fileURLToPath(new URL('../../examples/schedulers/', import.meta.url));
const AUDIENCES = /^AUDIENCES = .*$/m;
const MORE = `  - { name: Frequent, source: personas, sql: select customer as user_id from read_csv('orders.csv'), expect: { minRows: 4 } }
  - { name: Broken, source: personas, sql: select user_id from read_csv('absent.csv') }
`;

/** A folder with one audience that is sent, one that is held and one that fails, and with the example. */
async function place(t: Test, example: string, change: (text: string) => string) {
  const listener = await listen(t);
  const { folder, config } = await workspace(t, listener.url, MORE);
  const bin = await installedCommand(folder);
  const write = async (keys: readonly string[]) => {
    const text = await readFile(join(EXAMPLES, example), 'utf8');
    const changed = change(text).replace(AUDIENCES, `AUDIENCES = ${JSON.stringify(keys)}`);
    t.not(changed, text);
    await writeFile(join(folder, 'home', example), changed);
  };
  await mkdir(join(folder, 'home'));
  await writeFile(
    join(folder, 'home/rollcall_result.py'),
    await readFile(join(EXAMPLES, 'rollcall_result.py'), 'utf8'),
  );
  const env = {
    ...{ ROLLCALL_CONFIG: config, NODE_OPTIONS: '' },
    ...{ PATH: `${bin}:${process.env['PATH']}` },
  };
  return { folder, home: join(folder, 'home'), config, env, write, listener };
}

/** The runs that Rollcall knows of. */
async function states(config: string): Promise<readonly string[]> {
  const runs = jsonLines<{ key: string; state: string }>(await rollcall(['runs', '--json', '-c', config]));
  return runs.map(({ key, state }) => `${key} ${state}`).sort();
}

/** A run that is held is not tried again, one that fails is. */
const KEPT = ['big_spenders done', 'broken failed', 'broken failed', 'frequent held'];

const airflow = await pythonTools('airflow', ['apache-airflow==3.3.*']);

t.test('Airflow', { skip: typeof airflow === 'string' && airflow }, async (t) => {
  const { run } = airflow as PythonTools;
  const { folder, home, config, write, listener, ...given } = await place(t, 'airflow_dag.py', (text) =>
    text.replace('"retries": 3', '"retries": 1').replace('minutes=10', 'seconds=0'),
  );
  const env = {
    ...given.env,
    ...{ AIRFLOW_HOME: folder, AIRFLOW__CORE__DAGS_FOLDER: home, AIRFLOW__CORE__LOAD_EXAMPLES: 'False' },
  };
  const call = (...args: string[]) => run('airflow', args, { cwd: home, env });
  t.equal((await call('db', 'migrate')).code, 0);
  /** Runs the DAG; resolves to its state, and those of its tasks. */
  const test = async (keys: readonly string[], day: string) => {
    await write(keys);
    const { code, output } = await call('dags', 'test', 'rollcall_audiences', day);
    const listed = await call('dags', 'list-runs', 'rollcall_audiences', '-o', 'json');
    const runs = JSON.parse(listed.output.slice(listed.output.indexOf('[{'))) as { run_id: string; state: string }[];
    const { run_id, state } = runs[0] ?? { run_id: '', state: 'none' };
    const tasks = await call('tasks', 'states-for-dag-run', 'rollcall_audiences', run_id, '-o', 'json');
    const states = JSON.parse(tasks.output.slice(tasks.output.indexOf('[{'))) as { map_index: string; state: string }[];
    return {
      code,
      output,
      state,
      states: states.map((each) => `${keys[Number(each.map_index)]} ${each.state}`).sort(),
    };
  };

  const green = await test(['big_spenders'], '2026-03-01');
  t.match(green, { code: 0, state: 'success', states: ['big_spenders success'] }, 'green');
  const mixed = await test(['frequent', 'broken'], '2026-03-02');
  t.match(mixed, { state: 'failed', states: ['broken failed', 'frequent failed'] }, 'held and failing');
  t.match(mixed.output, /AirflowFailException: frequent: The SQL returned 3 rows; .*rollcall approve /);
  t.match(mixed.output, /RollcallFailed: \w+: /);
  t.equal((await listener.stop()).length, 2, 'sent once');
  t.same(await states(config), KEPT);
});

/** Ends of steps and of the run. */
const EVENTS = `select concat_ws(' ', step_key, dagster_event_type) as event from event_logs
  where dagster_event_type in ('STEP_SUCCESS', 'STEP_FAILURE', 'STEP_UP_FOR_RETRY', 'PIPELINE_SUCCESS', 'PIPELINE_FAILURE')
  order by 1`;
const dagster = await pythonTools('dagster', ['dagster==1.13.*']);

t.test('Dagster', { skip: typeof dagster === 'string' && dagster }, async (t) => {
  const { run } = dagster as PythonTools;
  const { folder, home, config, env, write, listener } = await place(t, 'dagster_assets.py', (text) =>
    text.replace('max_retries=3, delay=600', 'max_retries=1, delay=0'),
  );
  /** Runs the job; resolves to what Dagster keeps of it. */
  const execute = async (keys: readonly string[]) => {
    await write(keys);
    const DAGSTER_HOME = join(folder, `home-${keys[0]}`);
    await mkdir(DAGSTER_HOME);
    await writeFile(join(DAGSTER_HOME, 'dagster.yaml'), 'telemetry: { enabled: false }\n');
    const args = ['job', 'execute', '-f', 'dagster_assets.py', '-j', 'rollcall_audiences'];
    const { code, output } = await run('dagster', args, { cwd: home, env: { ...env, DAGSTER_HOME } });
    const history = join(DAGSTER_HOME, 'history/runs');
    const kept = (await readdir(history)).find((name) => name !== 'index.db') ?? '';
    const log = new DatabaseSync(join(history, kept), { readOnly: true });
    const events = log.prepare(EVENTS).all();
    log.close();
    return { code, output, events: events.map(({ event }) => `${event}`) };
  };

  const green = await execute(['big_spenders']);
  t.match(green, { code: 0, events: ['PIPELINE_SUCCESS', 'big_spenders STEP_SUCCESS'] }, 'green');
  const mixed = await execute(['frequent', 'broken']);
  const events = ['PIPELINE_FAILURE', 'broken STEP_FAILURE', 'broken STEP_UP_FOR_RETRY', 'frequent STEP_FAILURE'];
  t.match(mixed, { code: 1, events }, 'held and failing');
  t.match(mixed.output, /Failure: frequent: The SQL returned 3 rows; .*rollcall approve /);
  t.match(mixed.output, /RollcallFailed: \w+: /);
  t.equal((await listener.stop()).length, 2, 'sent once');
  t.same(await states(config), KEPT);
});
