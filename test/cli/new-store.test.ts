import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { startFastPostgres } from '../helpers/postgres.ts';
import { rollcall, workspace } from './helpers.ts';

t.test('makes no new store where an engine shows that there was one', async (t) => {
  const postgres = await startFastPostgres();
  t.teardown(() => postgres.stop());
  const { folder, config } = await workspace(t, 'http://127.0.0.1:9');
  const run = (...args: string[]) => rollcall([...args, '-c', config]);
  t.match(await run('sync', '--once'), { code: 4 });
  for (const name of readdirSync(folder).filter((each) => each.startsWith('rollcall.db'))) rmSync(join(folder, name));
  const refused = {
    code: 1,
    stderr:
      /^store_missing: .*the engine \w+ has what was last synced of big_spenders.*To begin .*: rollcall (\w+) --new-store/,
  };
  t.match(await run('sync', '--once'), refused);
  t.match(await run('start'), refused);
  t.match(await run('doctor'), { code: 1, stdout: /FAILED +store: .*store_missing/ });
  t.match(await run('sync', '--once', '--new-store'), { code: 1, stderr: /snapshot_foreign/ });
  t.match(await run('resync', 'big_spenders'), { code: 1, stderr: /snapshot_foreign/ });
  t.match(await run('engines', 'adopt', 'lake', '--yes'), { code: 0 });
  t.match(await run('plan'), { code: 1, stderr: /snapshot_moved.*resync/ });
  t.match(await run('resync', 'big_spenders'), { code: 4 }, 'the members are sent again');

  const text = readFileSync(config, 'utf8');
  writeFileSync(config, text.replace(/^store: .*/, `store: ${await postgres.database()}`));
  t.match(await run('migrate'), refused);
  t.match(await run('sync', '--once'), { code: 1, stderr: /^store_outdated/ }, 'and no tables were made');
  t.match(await run('migrate', '--new-store'), { code: 0, stdout: /Applied: 1/ });
  t.match(await run('migrate'), { code: 0, stdout: /up to date/ });
});
