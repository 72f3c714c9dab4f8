import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t, { type Test } from 'tap';
import type { AudienceConfig } from '../../src/config/config.ts';
import { dbtProject, MODEL } from './helpers/dbt-project.ts';
import { audience, createRig, NO_EXPECT, NO_GUARD, trait, values } from './helpers/rig.ts';

const HOUR = 3_600_000;
const NAMED = { name: 'sha256', checksum: 'a'.repeat(64) };

async function rigWith(t: Test, changes: Partial<AudienceConfig> = {}) {
  const rig = await createRig(t);
  const project = join(rig.config.folder, 'analytics');
  const { sql: _, ...a } = audience('a', '', { dbt: { project, model: 'big_spenders' }, ...changes });
  rig.config.audiences = [a];
  rig.write('spenders', ['user_id,amount', 'u1,10', 'u2,20']);
  return { rig, project, dbt: dbtProject(project) };
}

const reasons = async (rig: Awaited<ReturnType<typeof createRig>>) => {
  const told = (await rig.deliver()).get('crm') ?? [];
  return told.map(({ userId, context }) => `${userId} ${context.personas['reason']}`).sort();
};

t.test('reads the relation that the manifest names now', async (t) => {
  const { rig, dbt } = await rigWith(t);
  t.match(await rig.sync.run(), [{ error: null, runs: [{ state: 'done', members: 2 }] }]);
  t.same(await reasons(rig), ['u1 first_sync', 'u2 first_sync']);
  rig.write('elsewhere', ['user_id', 'u2', 'u3']);
  dbt.compiled((model) => {
    model.relation_name = '"elsewhere.csv"';
  });
  t.match(await rig.sync.plan(), [{ entered: 1, exited: 1, reasons: { entered: 1, exited: 1 } }]);
  t.match(await rig.sync.run(), [{ runs: [{ state: 'done', entered: 1, exited: 1 }] }]);
  t.same(await reasons(rig), ['u1 exited', 'u3 entered'], 'the model is the same, wherever it is kept');
});

t.test('gives the reason definition once the file of the model was edited', async (t) => {
  const { rig, dbt } = await rigWith(t);
  await rig.sync.run();
  await reasons(rig);
  rig.write('spenders', ['user_id,amount', 'u2,20', 'u4,40']);
  dbt.compiled((model) => {
    model.checksum = NAMED;
  });
  t.match(await rig.sync.plan(), [{ reasons: { definition: 2 } }]);
  await rig.sync.run();
  t.same(await reasons(rig), ['u1 definition', 'u4 definition']);
  rig.write('spenders', ['user_id,amount', 'u2,20']);
  await rig.sync.run();
  t.same(await reasons(rig), ['u4 exited'], 'once');
});

t.test('holds a trait whose columns changed although its model did not', async (t) => {
  const { rig, project, dbt } = await rigWith(t);
  const { sql: _, ...points } = trait('points', '', { dbt: { project, model: MODEL } });
  rig.config.audiences = [];
  rig.write('spenders', ['user_id,amount,rank', 'u1,10,2', 'u2,20,1']);
  rig.config.traits = [points];
  await rig.sync.run();
  t.same(values((await rig.deliver()).get('crm'), 'amount'), { u1: 10, u2: 20 });
  t.match(await rig.sync.types(), [{ columns: [{ key: 'amount', type: 'number' }, { key: 'rank' }] }]);
  rig.write('spenders', ['user_id,amount,rank,city', 'u1,10,2,Rome', 'u2,20,1,Oslo']);
  const [held] = await rig.sync.run();
  t.match(held?.runs, [{ state: 'held', code: 'columns_changed', reason: /new: city/ }]);
  await rig.sync.reject(held?.runs[0]?.id ?? '');
  dbt.compiled((model) => {
    model.checksum = NAMED;
  });
  t.match(await rig.sync.run(), [{ runs: [{ state: 'done', changed: 2 }] }]);
});

t.test('takes the latest version of a model, and a model by its unique id', async (t) => {
  const { rig, dbt, project } = await rigWith(t);
  const versions = (latest: number | null) =>
    dbt.compiled((model, { nodes }) => {
      for (const version of [1, 2]) {
        const relation_name = version === 1 ? '"old.csv"' : '"spenders.csv"';
        nodes[`${MODEL}.v${version}`] = { ...model, version, latest_version: latest, relation_name };
      }
      delete nodes[MODEL];
    });
  versions(2);
  t.match(await rig.sync.plan(), [{ members: 2 }]);
  versions(3);
  await t.rejects(rig.sync.plan(), { code: 'dbt_stale', message: /There is no model big_spenders/ });
  versions(null);
  await t.rejects(rig.sync.plan(), { code: 'dbt_stale', message: /There is no model big_spenders/ });
  rig.config.audiences = rig.config.audiences.map((each) => ({ ...each, dbt: { project, model: `${MODEL}.v2` } }));
  t.match(await rig.sync.plan(), [{ members: 2 }]);
  dbt.compiled((model, { nodes }) => {
    nodes['model.other.big_spenders'] = { ...model, package_name: 'other' };
  });
  rig.config.audiences = rig.config.audiences.map((each) => ({ ...each, dbt: { project, model: 'big_spenders' } }));
  await t.rejects(rig.sync.plan(), {
    message: /several models big_spenders\. .*: model\.analytics.* or model\.other\./,
  });
});

t.test('fails with the command to run unless the manifest is whole and has the model', async (t) => {
  const { rig, dbt, project } = await rigWith(t);
  const told = async (message: RegExp) => {
    const error = { code: 'dbt_stale', message };
    t.match((await rig.sync.run())[0]?.error, error);
    t.match(rig.notices.at(-1), { event: 'sync_failed', key: 'a', code: 'dbt_stale' });
    t.match(await rig.store.runs({ key: 'a', limit: 1 }), [{ state: 'failed', phase: 'open', code: 'dbt_stale' }]);
    await t.rejects(rig.sync.plan(), error, 'plan');
    await t.rejects(rig.sync.tryDefinition('a'), error, 'config check --sql');
  };
  dbt.compiled((model) => {
    model.relation_name = null;
  });
  await told(/^a: .*no relation: materialize it as a table or a view, not as ephemeral\. Run `dbt compile`/);
  dbt.compiled((_, { nodes }) => delete nodes[MODEL]);
  await told(/manifest.json: There is no model big_spenders\. There is: orders\. Run `dbt compile`/);
  dbt.write('manifest.json', '{"metadata": {}, "nodes": {"x"');
  await told(/manifest.json cannot be used: it is no JSON. Is dbt writing it\? Run `dbt compile`/);
  dbt.write('manifest.json', { metadata: {}, nodes: { x: { resource_type: 'model', name: 7 } } });
  await told(/cannot be used: nodes\.x\.name: .*Run `dbt compile`/);
  rmSync(join(project, 'target/manifest.json'));
  mkdirSync(join(project, 'target/manifest.json'));
  await told(/cannot be used: it is no regular file. Run `dbt compile`/);
  rmSync(join(project, 'target'), { recursive: true });
  await told(/analytics has no target\/manifest.json. Run `dbt compile`/);
  const again = dbtProject(project);
  mkdirSync(join(project, 'models'));
  const file = join(project, 'models/big_spenders.sql');
  writeFileSync(file, 'select 1 as user_id');
  await told(/models\/big_spenders.sql was edited since target\/manifest.json was written. Run `dbt compile`/);
  writeFileSync(file, "\n select user_id from {{ ref('orders') }} where amount >= {{ var('least', 10) }}\n\n");
  t.match(await rig.sync.run(), [{ error: null, runs: [{ state: 'done' }] }], 'white space around it is nothing');
  again.compiled((model, { metadata }) => {
    metadata['dbt_version'] = '2.0.8';
    model.checksum = NAMED;
  });
  t.match(await rig.sync.run(), [{ error: null }], 'only dbt 1 is known to hash like that');
  t.match(await rig.sync.retire('a'), { error: null, runs: [{ state: 'done', action: 'retire' }] });
});

t.test('reads a model in a database that is only read', async (t) => {
  const { rig, dbt } = await rigWith(t, { engine: 'app' });
  const path = join(rig.config.folder, 'app.db');
  rig.config.engines['app'] = { type: 'sqlite', path, concurrency: 1, snapshots: 'lake' };
  const database = new DatabaseSync(path);
  database.exec(`create table "odd name" as select 'u7' as user_id`);
  database.close();
  dbt.compiled((model) => {
    model.relation_name = '"main"."odd name"';
  });
  t.match(await rig.sync.run(), [{ error: null, runs: [{ state: 'done', members: 1 }] }]);
});

t.test('one project without a manifest stops no other audience', async (t) => {
  const { rig, project } = await rigWith(t);
  rmSync(join(project, 'target'), { recursive: true });
  rig.config.audiences = [...rig.config.audiences, audience('b', "select 'u' as user_id")];
  t.match(await rig.sync.run(), [
    { key: 'a', error: { code: 'dbt_stale' } },
    { key: 'b', runs: [{ state: 'done' }] },
  ]);
});

t.test('holds a run whose model or tests did not pass, and plan says so', async (t) => {
  const { rig, dbt } = await rigWith(t, { expect: { ...NO_EXPECT, dbt: { within: 24 * HOUR } } });
  const wanted = 'expect.dbt wants a build that passed.';
  const judged = async (reason: string | null, ...given: Parameters<typeof dbt.built>) => {
    if (given.length > 0) dbt.built(...given);
    t.match(await rig.sync.plan(), [{ held: reason }]);
    const [report] = await rig.sync.run();
    const run = report?.runs.at(-1);
    t.match(run, { state: reason === null ? 'done' : 'held', reason });
    if (run?.state === 'held') await rig.sync.reject(run.id);
  };
  await judged(`dbt has built nothing: there is no target/run_results.json; ${wanted}`);
  await judged(`In the last build of dbt the model big_spenders was not run; ${wanted}`, { [MODEL]: null });
  await judged(`In the last build of dbt the model big_spenders was skipped; ${wanted}`, { [MODEL]: 'skipped' });
  await judged(`In the last build of dbt the model big_spenders ended with an error; ${wanted}`, { [MODEL]: 'error' });
  await judged(`In the last build of dbt the model big_spenders ended as "partial success"; ${wanted}`, {
    [MODEL]: 'partial success',
  });
  await judged(
    `In the last build of dbt the test no_zz was skipped, the test not_null_big_spenders_user_id failed, the test unique_big_spenders_user_id ended with an error; ${wanted}`,
    { no_zz: 'skipped', not_null_big: 'fail', unique_big: 'error' },
  );
  await judged(`In the last build of dbt the test no_zz was not run; ${wanted}`, { no_zz: null });
  await judged(`The last command of dbt was "compile", which builds no models; ${wanted}`, {}, undefined, 'compile');
  await judged(
    'The last build of dbt is old: it ended at 2026-02-28T11:59:59.999Z; expect.within wants one of the last 1d.',
    {},
    '2026-02-28T11:59:59.999999Z',
  );
  t.same((await rig.deliver()).get('crm'), [], 'nothing is sent');
  await judged(null, { no_zz: 'warn', not_null_orders: 'fail', relationships: 'error' });
  t.same(await reasons(rig), ['u1 first_sync', 'u2 first_sync'], 'tests of other models are theirs');
  await judged(null, {}, '2026-02-28T12:00:00.000000Z', 'retry');
  rig.write('spenders', ['user_id,amount', 'u1,10']);
  dbt.built({ [MODEL]: 'error' });
  const [held] = await rig.sync.run();
  t.match(await rig.sync.approve(held?.runs.at(-1)?.id ?? ''), { runs: [{ state: 'done', exited: 1 }] });
  dbt.write('run_results.json', '[]');
  t.match(await rig.sync.run(), [{ error: { code: 'dbt_stale', message: /run_results.json cannot be used/ } }]);
});

t.test('names a few of many tests that failed', async (t) => {
  const { rig, dbt } = await rigWith(t, { expect: { ...NO_EXPECT, dbt: { within: null } }, guard: NO_GUARD });
  dbt.compiled((_, { nodes }) => {
    const test = nodes['test.analytics.no_zz'];
    for (let copy = 0; test && copy < 6; copy += 1) nodes[`test.x.${copy}`] = { ...test, name: `t${copy}` };
  });
  dbt.built();
  t.match(await rig.sync.plan(), [
    { held: /^In .* the test t0 was not run, .* the test t4 was not run, and 1 more; / },
  ]);
});

t.test('compiles short definitions that refer to a model', async (t) => {
  const { rig, dbt } = await rigWith(t);
  const { sql: _, ...b } = audience('b', '', { when: { not: { inAudience: 'a' } } });
  rig.config.audiences = [...rig.config.audiences, b];
  const { shownSql } = await import('../../jobs/index.ts');
  t.match(await shownSql(rig.config, ['a']), [{ key: 'a', sql: 'SELECT * FROM "spenders.csv"' }]);
  t.match(await shownSql(rig.config, ['b']), [{ key: 'b', sql: /SELECT \* FROM "spenders\.csv"/ }]);
  const code = async (key: string) => (await rig.sync.run()).find((each) => each.key === key)?.error?.code ?? null;
  t.equal(await code('a'), null);
  t.equal(await code('b'), 'sql_failed', 'there is no log here');
  t.match(rig.notices.at(-1)?.message, /rollcall_identities/);
  dbt.write('manifest.json', '');
  await t.rejects(shownSql(rig.config, ['b']), { code: 'dbt_stale' });
  t.equal(await code('b'), 'dbt_stale');
  rig.config.audiences = [...rig.config.audiences, audience('c', "select 'u' as user_id")];
  t.equal(await code('c'), null);
});
