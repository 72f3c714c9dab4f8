import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { openModule } from '../../../jobs/engines/module.ts';
import { type EngineFixture, engineContract } from '../../contract/engine.ts';
import { audience, createRig } from '../helpers/rig.ts';

const docs = readFileSync(new URL('../../../docs/engines.md', import.meta.url), 'utf8');

/** A file of the documentation, written where packages are found. */
function example(t: Test, name: string): string {
  const [, text] = new RegExp(`\`\`\`js\\n// ${name}\\n(.*?)\`\`\``, 's').exec(docs) ?? [];
  if (text === undefined) throw new Error(`The documentation has no ${name}.`);
  const file = join(t.testdir({}), name);
  writeFileSync(file, text);
  return file;
}

const module = example(t, 'my-engine.js');

async function open(t: Test): Promise<EngineFixture> {
  const folder = mkdtempSync(join(t.testdirName, '..', 'module-'));
  const reopen = async (options: { readOnly?: boolean } = {}) => {
    const engine = await openModule({ type: 'module', module, options: { path: 'a.duckdb' } }, { folder, ...options });
    t.teardown(() => engine.close());
    return engine;
  };
  return { engine: await reopen(), reopen, leavesOut: ['columns', 'differences'] };
}

t.test('runs the contract suite on the engine of the documentation', async (t) => engineContract(t, open));

t.test('syncs an audience in a configured engine module', async (t) => {
  const options = { path: 'lake.duckdb' };
  const rig = await createRig(t, { engine: { type: 'module', module, options, concurrency: 1 } });
  rig.config.audiences = [audience('a', "select 'u' as user_id")];
  t.match(await rig.sync.run(), [{ error: null, runs: [{ state: 'done', members: 1, sent: 1 }] }]);
  t.equal((await rig.deliver()).get('crm')?.length, 1);
});

t.test('reports an invalid module', async (t) => {
  const folder = t.testdir({ 'none.mjs': 'export const a = 1', 'half.mjs': 'export const openEngine = () => ({})' });
  const config = { type: 'module', options: {} } as const;
  for (const [file, message] of [
    ['none.mjs', /exports no function openEngine/],
    ['half.mjs', /has no snapshot, stage/],
    ['absent.mjs', /Cannot find module/],
  ] as const) {
    await t.rejects(openModule({ ...config, module: join(folder, file) }, { folder }), {
      code: 'engine_unreachable',
      message,
    });
  }
  await t.rejects(openModule({ ...config, module: 'no-such-package' }, { folder }), { code: 'engine_unreachable' });
});
