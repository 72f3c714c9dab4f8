import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { migratePostgres } from '../../src/store/postgres/migrate.ts';
import { startPostgres } from '../helpers/postgres.ts';
import { program } from '../helpers/programs.ts';
import { FakeClocks, skipWithoutFaketime } from './faketime.ts';

const MAIN = program('src/cli/main.ts');

t.test('compares this machine’s clock with the database’s', { skip: skipWithoutFaketime }, async (t) => {
  const server = await startPostgres();
  t.teardown(() => server.stop());
  const store = await server.database();
  await migratePostgres(store);
  const folder = t.testdir({});
  const config = join(folder, 'rollcall.json');
  writeFileSync(config, JSON.stringify({ store, sources: [{ id: 'shop', writeKey: 'key' }], destinations: [] }));
  const clocks = new FakeClocks(join(folder, 'clocks'));
  const look = async () => {
    const doctor = spawn(process.execPath, [MAIN, 'doctor', '--json', '-c', config], {
      env: { ...process.env, NODE_OPTIONS: '', ...clocks.env(false) },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [printed] = await Promise.all([text(doctor.stdout), once(doctor, 'close')]);
    const findings = printed
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    return findings.find(({ check }) => check === 'clock');
  };
  t.match(await look(), { state: 'ok', message: /agrees with the database's/ });
  clocks.shift(-300);
  t.match(await look(), { state: 'warning', message: /is 5 ?m.* behind the database's.*NTP/ });
});
