// biome-ignore-all lint/suspicious/noTemplateCurlyInString: variables of the configuration file
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { dbtProject, MODEL } from '../jobs/helpers/dbt-project.ts';
import { jsonLines, listen, rollcall, start, workspace } from './helpers.ts';

const TEAM = `audiences:
  - name: Fans
    source: personas
    schedule: "* * * * * *"
    dbt: { project: "\${ANALYTICS:-../analytics}", model: big_spenders }
    expect: { dbt: pass }
`;

t.test('computes, plans, checks and compares audiences that are models of dbt', async (t) => {
  const listener = await listen(t);
  const { folder, config } = await workspace(t, listener.url, 'include: [teams/*.yaml]\n');
  await mkdir(join(folder, 'teams'));
  await writeFile(join(folder, 'teams/fans.yaml'), TEAM);
  await writeFile(join(folder, 'spenders.csv'), 'user_id\nu1\nu2\n');
  const of = (...args: string[]) => rollcall([...args, '-c', config]);

  t.match(await of('config', 'check', '--sql'), {
    code: 1,
    stderr: /fans\.yaml:2: fans: .*no target\/manifest\.json\. Run `dbt compile`/,
  });
  t.match(await of('plan', 'fans', '--json'), { code: 1, stdout: /"code":"dbt_stale"/ });
  t.match(await of('plan', 'fans', '--sql'), { code: 1, stderr: /manifest\.json\. Run `dbt compile`/ });
  t.match(await of('sync', 'fans', '--once'), { code: 1, stderr: /Run `dbt compile`/ });
  const dbt = dbtProject(join(folder, 'analytics'));
  t.match(await of('config', 'check', '--sql'), { code: 0, stdout: /2 definitions of 2 can be run/ });
  t.match(await of('plan', 'fans', '--sql'), {
    code: 0,
    stdout: '-- fans (audience, engine lake)\nSELECT * FROM "spenders.csv"\n;\n\n',
  });
  dbt.built({ unique_big: 'fail' });
  const held =
    'In the last build of dbt the test unique_big_spenders_user_id failed; expect.dbt wants a build that passed.';
  t.match(jsonLines(await of('plan', 'fans', '--json')), [{ key: 'fans', members: 2, held }]);
  t.equal((await of('plan', 'fans', '--exit-code')).code, 3);
  t.match(await of('sync', 'fans', '--once', '--json'), { code: 3, stdout: new RegExp(held) });
  t.match(await of('runs', 'fans'), { stdout: /unique_big_spenders_user_id failed/ });

  await writeFile(join(folder, 'teams/fans.yaml'), TEAM.replace(':-../analytics', ''));
  t.match(await of('config', 'check', '--sql', '--no-env'), {
    code: 0,
    stderr: /fans was not tried: it needs ANALYTICS/,
  });
  await writeFile(join(folder, 'teams/fans.yaml'), TEAM);
  const other = join(folder, 'other.yaml');
  await writeFile(join(folder, 'teams/fans.yaml'), TEAM.replace('big_spenders', MODEL));
  await writeFile(other, (await readFile(config, 'utf8')).replace('teams/*.yaml', 'old/*.yaml'));
  await mkdir(join(folder, 'old'));
  await writeFile(join(folder, 'old/fans.yaml'), TEAM);
  const [difference] = jsonLines(await rollcall(['config', 'diff', other, config, '--json']));
  const project = '${ANALYTICS:-../analytics}';
  t.match(difference, {
    ...{ section: 'audiences', name: 'fans', change: 'changed' },
    settings: [{ setting: 'definition', before: { project, model: 'big_spenders' }, after: { project, model: MODEL } }],
  });
  await listener.stop();
});

t.test('reads the project at each run of a service, without a reload', async (t) => {
  const listener = await listen(t);
  const { folder, config } = await workspace(t, listener.url, 'include: [teams/*.yaml]\n');
  await mkdir(join(folder, 'teams'));
  await writeFile(join(folder, 'teams/fans.yaml'), TEAM);
  await writeFile(join(folder, 'spenders.csv'), 'user_id\nu1\nu2\n');
  const dbt = dbtProject(join(folder, 'analytics'));
  dbt.built();
  const service = start(['start', '-c', config]);
  await service.stderr.match(/sync of fans: done/);
  await rm(join(folder, 'analytics/target/manifest.json'));
  await service.stderr.match(/has no target\/manifest\.json/);
  await writeFile(join(folder, 'more.csv'), 'user_id\nu1\nu3\n');
  dbt.compiled((model) => {
    model.relation_name = '"more.csv"';
  });
  await service.stderr.match(/"entered":1,"exited":1.*sync of fans: done/);
  await service.stop();
  t.match(await rollcall(['members', 'fans', '-c', config]), { stdout: /u1\n(.*\n)*.*u3|u3\n(.*\n)*.*u1/ });
  await listener.stop();
});
