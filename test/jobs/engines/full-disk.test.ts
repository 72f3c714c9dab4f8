import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { openDuckdb } from '../../../jobs/engines/duckdb/duckdb.ts';
import { systemClock } from '../../../src/kernel/clock.ts';
import { request, settle, usersSql } from '../../contract/engine.ts';
import { smallDisk } from '../../helpers/small-disk.ts';

const MANY = `select md5(i::varchar) || md5((i + 1)::varchar) as user_id from range(1000000) as t(i)`;

const first = smallDisk();
const second = smallDisk();
const skip = first && second ? false : 'this process may not mount a small disk';
t.teardown(() => {
  first?.remove();
  second?.remove();
});

t.test('fails a run on a full disk, keeps the snapshot, and continues later', { skip }, async (t) => {
  const folder = first?.folder ?? '';
  const config = { type: 'duckdb', path: join(folder, 'a.duckdb'), memoryLimit: '256MB', threads: 1 } as const;
  const open = () => openDuckdb(config, { folder, clock: systemClock });
  const engine = await open();
  t.teardown(() => engine.close().catch(() => {}));
  await settle(engine, { sql: usersSql('a', 'b') });
  await t.rejects(engine.stage(request({ toVersion: 2, sql: MANY })), { code: 'engine_failed', message: /club: / });
  t.same(await engine.snapshot('club'), { version: 1, members: 2 });
  t.match(await engine.stage(request({ toVersion: 2, sql: usersSql('b', 'c') })), { entered: 1, exited: 1 });
});

t.test('keeps plan and snapshot if the disk fills up between stage and commit', { skip }, async (t) => {
  const folder = second?.folder ?? '';
  const config = { type: 'duckdb', path: join(folder, 'a.duckdb'), memoryLimit: '256MB', threads: 1 } as const;
  const open = () => openDuckdb(config, { folder, clock: systemClock });
  const engine = await open();
  await settle(engine, { sql: usersSql('a', 'b') });
  const some = `select md5(i::varchar) as user_id from range(50000) as t(i)`;
  const { plan } = await engine.stage(request({ toVersion: 2, sql: some }));
  const ballast = join(folder, 'ballast');
  try {
    writeFileSync(ballast, Buffer.alloc(2 ** 25));
  } catch {
    // The file took the rest of the disk.
  }
  await t.rejects(engine.commit(plan), { code: 'engine_failed' });
  await engine.close().catch(() => {});
  rmSync(ballast);
  const again = await open();
  t.teardown(() => again.close().catch(() => {}));
  t.same(await again.snapshot('club'), { version: 1, members: 2 });
  await again.commit(plan);
  t.same(await again.snapshot('club'), { version: 2, members: 50_000 });
});
