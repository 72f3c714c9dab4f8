import { existsSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { AttemptRecord } from '../../src/store/port.ts';
import { audience, createRig, destination } from './helpers/rig.ts';

const list = (...users: string[]) => `select unnest([${users.map((user) => `'${user}'`)}]::varchar[]) as user_id`;

t.test('plans what would be sent, without a trace', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', list('1', '1', '2', ''))];
  t.match(await rig.sync.plan(), [
    { key: 'a', first: true, members: 2, entered: 2, exited: 0, invalid: 1, duplicates: 1, messages: 2, calls: 2 },
  ]);
  t.notOk(existsSync(join(rig.config.folder, 'audiences.duckdb')), 'not even the file');
  await rig.sync.run();
  rig.config.audiences = [audience('a', list('2', '3'))];
  rig.config.destinations = [destination('crm'), destination('mail')];
  const [plan] = await rig.sync.plan();
  t.match(plan, { entered: 1, exited: 1, before: 2, newcomers: ['mail'], calls: 4, held: null });
  t.same(
    plan?.sample.map((body) => JSON.parse(body).traits),
    [{ a: false }, { a: true }],
  );
  t.equal((await rig.store.runs({ limit: 10 })).length, 1);
  t.match(await rig.sync.run(), [{ runs: [{ entered: 1, exited: 1 }, { action: 'backfill' }] }]);
});

t.test('counts the end of the old name in the plan of a renamed audience', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('old', list('1', '2'))];
  await rig.sync.run();
  rig.config.audiences = [audience('new', list('1', '2'))];
  t.match(await rig.sync.plan(), [{ key: 'new', renamedFrom: 'old', retired: 2, messages: 2, calls: 4 }]);
});

t.test('counts a batch as one call, and estimates the time by messages', async (t) => {
  const rig = await createRig(t);
  const plain = destination('crm');
  const [endpoint] = plain.endpoints;
  const batched = { ...plain, endpoints: [{ ...endpoint!, batch: { size: 150, wait: 200 } }] };
  rig.config.destinations = [batched, destination('mail')];
  rig.config.audiences = [audience('a', 'select unnest(range(1, 201))::varchar as user_id')];
  t.match(await rig.sync.plan(), [{ messages: 200, calls: 2 + 200 }]);
  await rig.sync.run();
  const [run] = await rig.store.runs({ limit: 1 });
  const attempts = Array.from({ length: 400 }, (_, index) => attempt(`${run?.id}:*:${index}`, index * 10));
  const other = rig.another({ store: { ...rig.store, attempts: async () => attempts } });
  rig.config.audiences = [audience('a', 'select unnest(range(1, 401))::varchar as user_id')];
  t.match(await other.plan(), [{ calls: 2 + 200, estimatedMs: 4000 }], '400 messages took 4 s');
});

t.test('names the audience of a plan that fails', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('club', list('1'), { engine: 'gone' })];
  await t.rejects(rig.sync.plan(), { code: 'engine_unreachable', message: /^club: .*no engine gone/ });
});

t.test('estimates the time of calls from an earlier run, or gives none', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', 'select unnest(range(1, 201))::varchar as user_id')];
  await rig.sync.run();
  t.match(await rig.sync.plan(), [{ calls: 0, estimatedMs: null }]);
  rig.config.audiences = [audience('a', 'select unnest(range(1, 601))::varchar as user_id')];
  t.match(await rig.sync.plan(), [{ calls: 400, estimatedMs: null }], 'accepted is not yet called');
  const [run] = await rig.store.runs({ limit: 1 });
  const calls = Array.from({ length: 200 }, (_, index) => attempt(`${run?.id}:*:${index}`, index * 10));
  const store = { ...rig.store, attempts: async () => [...calls, attempt('another message', 1_000_000)] };
  t.match(await rig.another({ store }).plan(), [{ calls: 400, estimatedMs: 4000 }], '200 calls took 2 s');
  const few = { ...rig.store, attempts: async () => calls.slice(0, 50) };
  t.match(await rig.another({ store: few }).plan(), [{ estimatedMs: null }], 'a few say nothing');
});

function attempt(messageId: string, time: number): AttemptRecord {
  return {
    delivery: messageId,
    destination: 'crm',
    endpoint: 'crm',
    source: 'personas',
    type: 'identify',
    userId: 'u',
    messageId,
    at: time,
    ms: 10,
    outcome: 'success',
    status: 200,
    error: null,
    response: null,
  };
}
