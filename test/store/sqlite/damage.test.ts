import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { App } from '../../../src/app.ts';
import { parseConfig } from '../../../src/config/load.ts';
import { systemClock } from '../../../src/kernel/clock.ts';
import { type ErrorCode, RollcallError } from '../../../src/kernel/errors.ts';
import { NO_EVENTS } from '../../../src/store/port.ts';
import { storeError } from '../../../src/store/sqlite/connection.ts';
import { forgetLost } from '../../../src/store/sqlite/files.ts';
import { openSqliteStore } from '../../../src/store/sqlite/store.ts';
import { accept, codeOf, message } from '../../contract/store-fixture.ts';
import { DAMAGES, type Damage } from '../../crash/damage.ts';
import { randomNumbers } from '../../crash/random.ts';

const FILLER = 'x'.repeat(1_500);

async function open(path: string) {
  const damages: RollcallError[] = [];
  const events = { ...NO_EVENTS, onDamaged: (error: RollcallError) => void damages.push(error) };
  const store = await openSqliteStore({ path, maxQueued: 100_000, clock: systemClock, events });
  return { store, damages };
}

/** A store of some 100 pages, as a killed process leaves it (with its log) or as one that was stopped does. */
async function made(t: Test, { killed = false } = {}): Promise<string> {
  const folder = t.testdir({ from: {}, data: {} });
  const origin = join(folder, 'from', 'a.db');
  const path = join(folder, 'data', 'a.db');
  const { store } = await open(origin);
  const batch = Array.from({ length: 400 }, () => message({ body: `{"version":1,"filler":"${FILLER}"}` }));
  await accept(store, ...batch.slice(0, 300));
  if (killed) new DatabaseSync(origin).exec('PRAGMA wal_checkpoint(TRUNCATE)');
  await accept(store, ...batch.slice(300));
  const copy = () => {
    for (const suffix of ['', '-wal', '-id'])
      if (existsSync(origin + suffix)) copyFileSync(origin + suffix, path + suffix);
  };
  if (killed) copy();
  await store.close();
  if (!killed) copy();
  return path;
}

const CODES: Partial<Record<Damage, ErrorCode>> = {
  'its folder is gone': 'store_failed',
  'it is gone, but not its log': 'store_missing',
};

for (const damage of Object.keys(DAMAGES) as Damage[]) {
  for (const killed of damage.includes('log') ? [true] : [false, true]) {
    t.test(`refuses all messages: ${damage}, ${killed ? 'after a kill' : 'after a stop'}`, async (t) => {
      const path = await made(t, { killed });
      DAMAGES[damage](path, randomNumbers(killed ? 3 : 4));
      const opened = await open(path).catch((error: RollcallError) => error);
      if (opened instanceof RollcallError) {
        t.equal(opened.code, CODES[damage] ?? 'store_damaged');
        t.match(opened.message, damage === 'its folder is gone' ? join(path, '..') : path);
        return;
      }
      const { store, damages } = opened;
      t.match(damages, [{ code: 'store_damaged' }], 'it is said once');
      t.match(damages[0]?.message, new RegExp(`${path}.*docs/deployment\\.md`));
      for (const work of [accept(store, message()), store.ping(), store.join(1_000), store.rescue()]) {
        t.equal(await codeOf(work), 'store_damaged');
      }
      await store.close();
      t.equal(damages.length, 1);
    });
  }
}

t.test('creates a store with its side files where a chain of links leads', async (t) => {
  const folder = t.testdir({ data: {} });
  const [first, second, path] = [join(folder, 'a.db'), join(folder, 'b.db'), join(folder, 'data', 'store.db')];
  symlinkSync(second, first);
  symlinkSync(path, second);
  const { store } = await open(first);
  t.equal(await codeOf(accept(store, message())), null);
  await store.close();
  t.same(readdirSync(folder).sort(), ['a.db', 'b.db', 'data'], 'nothing lies beside the links');
  t.ok(readdirSync(join(folder, 'data')).includes('store.db'));
});

t.test("looks for a store's side files where a link to it leads", async (t) => {
  const path = await made(t);
  const link = join(dirname(path), '..', 'link.db');
  symlinkSync(path, link);
  const opened = () =>
    open(link).then(
      async ({ store, damages }) => {
        const found = await codeOf(accept(store, message()));
        await store.close();
        return found ?? damages;
      },
      ({ code, message }: RollcallError) => `${code}: ${message}`,
    );
  t.same(await opened(), []);
  t.same(
    readdirSync(dirname(link)).filter((name) => name.startsWith('link')),
    ['link.db'],
    'nothing lies beside the link',
  );
  const log = Buffer.alloc(64, 1);
  writeFileSync(`${path}-wal`, log);
  t.match(
    await opened(),
    /^store_damaged: The log .*a\.db-wal belongs to another file/,
    'it would be written into the file',
  );
  rmSync(path);
  t.match(await opened(), /^store_missing: .* is gone: .*a\.db-wal is there/, 'and no new store is made');
});

t.test('opens an undamaged store, after a kill and after a stop', async (t) => {
  for (const killed of [true, false]) {
    const { store, damages } = await open(await made(t, { killed }));
    t.match(await store.backlog(), [{ destination: 'crm', pending: 400, dead: 0 }]);
    t.equal(await store.check(true), null);
    await accept(store, message());
    await store.close();
    t.same(damages, []);
  }
});

t.test('stops writing when damage shows while the store is open, and keeps reading', async (t) => {
  const path = await made(t);
  const { store, damages } = await open(path);
  const other = new DatabaseSync(path);
  other.enableDefensive(false);
  other.exec("PRAGMA writable_schema = ON; UPDATE sqlite_schema SET rootpage = 99999 WHERE name = 'delivery'");
  other.exec('PRAGMA schema_version = 900');
  other.close();
  t.equal(await codeOf(accept(store, message())), 'store_damaged');
  t.equal(await codeOf(store.heartbeat(1, 1_000)), 'store_damaged', 'although that table is sound');
  t.match(damages, [{ code: 'store_damaged' }]);
  await store.close();
});

t.test('starts again with a store emptied by hand, and does not take a new file for damage', async (t) => {
  const path = await made(t);
  for (const suffix of ['', '-id']) rmSync(path + suffix);
  writeFileSync(path, '');
  const { store, damages } = await open(path);
  t.same([await store.backlog(), damages], [[], []]);
  await store.close();
  t.match(readFileSync(`${path}-id`, 'utf8'), /Rollcall store/);
});

t.test('refuses to make a new store where one was lost, moved or exchanged', async (t) => {
  const path = await made(t);
  const refusal = () =>
    open(path).then(
      async ({ store }) => store.close(),
      ({ code, message }: RollcallError) => `${code}: ${message}`,
    );
  renameSync(path, `${path}.moved`);
  t.match(await refusal(), /^store_missing: .* is gone: .*a\.db-id is there.*rollcall start --new-store/);
  rmSync(`${path}-id`);
  t.match(await refusal(), /^store_missing: .* was moved to Postgres: .*a\.db\.moved is there.*Set `store` to/);
  writeFileSync(path, '');
  t.match(await refusal(), /^store_missing: .* was moved to Postgres/, 'an empty file is none');
  forgetLost(path);
  t.equal(await refusal(), undefined, 'a new one is made if a person wants it');
  t.throws(() => forgetLost(path), { code: 'bad_usage' });
  renameSync(`${path}.moved-1`, path);
  t.match(await refusal(), /^store_missing: The file .*a\.db is the store \w+; .*a\.db-id says that/);
});

t.test("gives SQLite's failures codes that say what to do", async (t) => {
  const codes: Record<number, ErrorCode> = {
    11: 'store_damaged',
    267: 'store_damaged',
    26: 'store_damaged',
    8458: 'store_damaged',
  };
  Object.assign(codes, {
    8: 'store_read_only',
    1544: 'store_read_only',
    3: 'store_read_only',
    13: 'store_full',
    5: 'store_busy',
    10: 'store_failed',
  });
  for (const [errcode, code] of Object.entries(codes)) {
    const error = storeError(Object.assign(new Error('so'), { errcode: Number(errcode) }), '/srv/a.db');
    t.equal(error.code, code, errcode);
  }
});

t.test('names a folder in place of the file, and a file in place of the folder', async (t) => {
  const folder = t.testdir({ file: '' });
  mkdirSync(join(folder, 'a.db'));
  await t.rejects(open(join(folder, 'a.db')), { code: 'store_failed', message: /a\.db is not a file/ });
  await t.rejects(open(join(folder, 'file', 'a.db')), { code: 'store_failed', message: /\/file, .* is not a folder/ });
});

t.test('starts a service with a damaged store, without intake; ends one that only syncs', async (t) => {
  const path = await made(t);
  const bytes = readFileSync(path);
  bytes.fill(0xa5, bytes.length - 3 * 8_192);
  writeFileSync(path, bytes);
  const text = JSON.stringify({
    store: `sqlite:${path}`,
    listen: { host: '127.0.0.1', port: 0 },
    sources: [{ id: 'shop', writeKey: 'key' }],
  });
  const config = parseConfig(text, { file: 'rollcall.yaml', folder: dirname(path), env: {} });
  const lines: { level: number; code?: string; msg: string }[] = [];
  const log = pino({ level: 'error' }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const app = await App.create(config, { log });
  await app.start({ collect: true, schedules: true });
  t.teardown(() => app.close());
  t.match(lines, [{ level: 50, code: 'store_damaged', msg: /docs\/deployment\.md/ }]);
  const get = async (route: string, init: RequestInit = {}) => {
    const response = await fetch(`${app.address}${route}`, init);
    return [response.status, ((await response.json()) as { code?: string }).code];
  };
  const post = {
    method: 'POST',
    headers: { authorization: `Basic ${btoa('key:')}` },
    body: '{"event":"e","userId":"u"}',
  };
  t.same(await get('/v1/track', post), [503, 'store_damaged']);
  t.same(await get('/readyz'), [503, 'store_damaged']);
  t.same(await get('/healthz'), [200, undefined], 'a restart would not help');

  const sync = await App.create(config, { log });
  await t.rejects(sync.start({ collect: false, schedules: true }), { code: 'store_damaged' });
  await sync.close();
});
