import { existsSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { launch, track } from '../helpers/program.ts';

/** A usual default: what a program does not restrict, others may read. */
const umask = process.umask(0o022);
t.teardown(() => process.umask(umask));

const configuration = (more: object) =>
  JSON.stringify({
    listen: { host: '127.0.0.1', port: 0 },
    sources: [{ id: 'shop', writeKey: 'key' }],
    destinations: [{ name: 'crm', sources: ['shop'], webhooks: [{ url: 'http://127.0.0.1:9/' }] }],
    eventLog: {},
    audiences: [{ name: 'Buyers', source: 'shop', sql: 'select user_id from tracks where user_id is not null' }],
    ...more,
  });

/** Run everything that makes files, and return the modes of all files and folders made, with one path for each. */
async function modesOf(t: Test, more: object): Promise<Readonly<Record<string, string>>> {
  const folder = t.testdir({});
  const config = join(folder, 'rollcall.yaml');
  writeFileSync(config, configuration(more));
  const given = new Set(readdirSync(folder));
  const found = new Map<string, string>();
  const note = () => {
    for (const path of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
      const stat = statSync(join(folder, path), { throwIfNoEntry: false });
      if (stat && !given.has(path))
        found.set(`${stat.isDirectory() ? 'folder' : 'file'} ${(stat.mode & 0o777).toString(8)}`, path);
    }
  };
  const run = async (...args: string[]) => {
    const { code, stderr } = await launch([...args, '-c', config]).ended;
    note();
    return code === 0 || t.fail(stderr);
  };
  const service = launch(['start', '-c', config]);
  t.equal(await track((await service.address) ?? '', 'key', 'm1'), 200);
  note();
  service.child.kill('SIGTERM');
  t.equal((await service.ended).code, 0);
  const { code } = await launch(['sync', '--once', '-c', config]).ended;
  t.equal(code, 4, 'synced, and nobody takes it');
  await run('backup', join(folder, 'copies', 'today'));
  for (const made of ['rollcall.db', 'rollcall.db-id', 'audiences.duckdb', 'events', 'copies/today/rollcall.db'])
    t.ok(existsSync(join(folder, made)), made);
  t.ok(readdirSync(join(folder, 'events'), { recursive: true }).some((name) => `${name}`.endsWith('.parquet')));
  return Object.fromEntries(found);
}

t.test('makes files for their owner alone', async (t) => {
  t.same(Object.keys(await modesOf(t, {})).sort(), ['file 600', 'folder 700']);
});

t.test('makes files that the group may read, if asked to', async (t) => {
  const { 'file 600': own, ...others } = await modesOf(t, { files: { group: true } });
  t.same(Object.keys(others).sort(), ['file 640', 'folder 750']);
  t.equal(own, 'rollcall.token', 'but for the token');
});

t.test('starts projects that only their owner may read', async (t) => {
  const folder = join(t.testdir({}), 'project');
  t.match(await launch(['init', folder, '--yes']).ended, { code: 0 });
  for (const path of ['.', ...readdirSync(folder, { recursive: true, encoding: 'utf8' })])
    t.equal(statSync(join(folder, path)).mode & 0o077, 0, path);
});
