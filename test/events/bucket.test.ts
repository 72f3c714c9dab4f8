import { globSync, mkdirSync, readFileSync, rmSync, utimesSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t from 'tap';
import { missingFiles } from '../../src/events/missing.ts';
import { verifyFiles } from '../../src/events/summary.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { backup } from '../../src/store/copy/backup.ts';
import { filesOf } from '../../src/store/events/open-files.ts';
import { randomNumbers } from '../crash/random.ts';
import { bucketOf, failing, startS3 } from '../helpers/s3.ts';
import { Crashes } from './helpers/crashes.ts';
import { keptLog } from './helpers/kept-log.ts';

const MINUTE = 60_000;
const DAY = 1_440 * MINUTE;
const ids = 'SELECT message_id FROM events ORDER BY 1';

/** A log in a bucket of its own. */
async function inBucket(t: Parameters<typeof keptLog>[0], cacheBytes = 1e9) {
  const s3 = await startS3(t);
  const bucket = { ...bucketOf(s3), cacheBytes };
  return { s3, bucket, ...(await keptLog(t, { bucket })) };
}

t.test('seals into the bucket, and reads from there what is not in the folder', async (t) => {
  const { s3, keeper, another, add, query, log, folder } = await inBucket(t);
  await another().start();
  t.ok(s3.objects.has('some/log/log.json'), 'a writer shows itself although it has nothing to write');
  await keeper.insist();
  await add({ id: '1', event: 'A', userId: 'u', source: "other shop/ü+'" });
  await another().stop();
  await add({ id: '2', event: 'A', userId: 'u' });
  await another().stop();
  await add({ id: '3', event: 'A', userId: 'u' });
  const names = (await log.state()).files.map(({ name }) => name);
  t.same(new Set(s3.objects.keys()), new Set(['log.json', ...names].map((name) => `some/log/${name}`)));
  for (const name of names) rmSync(join(folder, name));
  s3.requests.length = 0;
  t.same(await query(ids), [['1'], ['2'], ['3']]);
  t.same(s3.requests.length, 2, 'each file is read once');
  t.same(await query(ids), [['1'], ['2'], ['3']]);
  t.same(s3.requests.length, 2, 'and is then in the folder');
  t.same(await query(`SELECT message_id FROM events WHERE source = 'other shop/ü+'''`), [['1']]);
});

t.test('loses and doubles nothing if killed at any step, while one request in twenty fails', async (t) => {
  const s3 = await startS3(t);
  s3.failOften(failing(randomNumbers(51), 20));
  const crashes = new Crashes(t, null, s3);
  // A file is written in the same way for whatever reason.
  const places = crashes.places.filter(
    ({ step, failpoint }) => step === 'seal' || !['log_planned', 'log_written'].includes(failpoint),
  );
  for (const place of places) {
    t.ok(await crashes.dieAt(place), `${place.step} at ${place.failpoint} ${place.passes}`);
  }
  t.ok(await crashes.endWell(), 'the last life ends as it should');
  await crashes.audit(t);
  t.ok(s3.requests.length > 100, `${s3.requests.length} requests`);
});

t.test('keeps events in the store while the bucket is away, full of faults, or keeps damaged files', async (t) => {
  const { s3, another, add, query, log, warnings } = await inBucket(t);
  s3.away(true);
  await another().insist();
  t.match(warnings.pop(), { err: { code: 'bucket_failed' } });
  await add({ id: '1', event: 'A', userId: 'u' });
  await another().stop();
  t.match(warnings, [{ err: { code: 'bucket_failed' } }]);
  t.same(await query(ids), [['1']]);
  s3.away(false);
  s3.fail(/^PUT .*parquet/, 'keep half');
  await another().stop();
  t.match(warnings.at(-1), { err: { code: 'bucket_failed', message: /is not as it was written/ } });
  s3.fail(/^PUT .*parquet/, 403);
  await another().stop();
  t.match(warnings.at(-1), {
    err: { message: /^PUT s3:\/\/bucket\/some\/log\/source=shop.* failed: 403 AccessDenied\.$/ },
  });
  t.notMatch(JSON.stringify(warnings), /s3cret/);
  t.equal((await log.state()).tail.events, 1);
  s3.fail(/^PUT .*parquet/, 503, 'half', 'cut', 'cut answer');
  await another().stop();
  t.equal((await log.state()).tail.events, 0);
  t.same(await query(ids), [['1']]);
});

t.test('removes what failed uploads left, and copies that were not used, down to the size of the cache', async (t) => {
  const { s3, another, add, advance, query, log, folder, onDisk } = await inBucket(t, 1);
  s3.fail(/^PUT .*parquet/, 'keep half');
  await add({ id: '1', event: 'A', userId: 'u' });
  await another().stop();
  await another().stop();
  t.equal(s3.holding('PAR1').length, 2);
  advance(10 * MINUTE);
  await another().start();
  t.equal(s3.holding('PAR1').length, 1);
  const [{ name } = { name: '' }] = (await log.state()).files;
  t.ok(onDisk().includes(name), 'a copy in use stays');
  utimesSync(join(folder, name), 0, 0);
  await another().start();
  t.notOk(onDisk().includes(name));
  t.same(await query(ids), [['1']]);
  utimesSync(join(folder, name), 0, 0);
  s3.delete(`some/log/${name}`);
  await another().start();
  t.ok(onDisk().includes(name), 'a copy stays if the bucket has lost the file');
});

t.test('verifies the files in the bucket, not their copies', async (t) => {
  const { s3, bucket, another, add, log, folder } = await inBucket(t);
  for (const id of ['1', '2', '3']) {
    await add({ id, event: 'A', userId: id });
    await another().stop();
  }
  const files = (await log.state()).files.map(({ name }) => name);
  const [missing = '', cut = '', damaged = ''] = files;
  s3.delete(`some/log/${missing}`);
  const bytes = (name: string) => s3.objects.get(`some/log/${name}`)?.body ?? Buffer.alloc(0);
  s3.put(`some/log/${cut}`, bytes(cut).subarray(9));
  s3.put(`some/log/${damaged}`, Buffer.alloc(bytes(damaged).length));
  const place = filesOf({ keep: 1, path: folder, sources: null, bucket });
  t.same(
    await verifyFiles(
      log,
      place,
      () => 'token',
      () => {},
    ),
    [
      { file: missing, fault: 'missing' },
      { file: cut, fault: 'size' },
      { file: damaged, fault: 'unreadable' },
    ],
  );
  t.same(await missingFiles(place, log), (await log.state()).files.slice(0, 1));
});

t.test('refuses a bucket without the log, or with that of another store', async (t) => {
  const { s3, bucket, another, add, log, warnings, folder, store } = await inBucket(t);
  await another().insist();
  await add({ id: '1', event: 'A', userId: 'u' });
  await another().stop();
  const beside = join(folder, 'other');
  mkdirSync(beside);
  const nowhere = await keptLog(t, { bucket: { ...bucket, bucket: 'none' }, folder: beside });
  await nowhere.keeper.insist();
  t.match(nowhere.warnings, [
    { err: { message: /^PUT s3:\/\/none\/some\/log\/log\.json at .* failed: 404 NoSuchBucket\.$/ } },
  ]);
  const other = await keptLog(t, { bucket, folder: beside });
  await t.rejects(other.keeper.insist(), { code: 'event_log_taken', message: /the log of another store/ });
  await other.add({ id: '2', event: 'A', userId: 'u' });
  await other.another().stop();
  t.match(other.warnings, [{ err: { code: 'event_log_taken' } }]);
  t.equal((await other.log.state()).tail.events, 1, 'its events stay in the store');
  s3.delete('some/log/log.json');
  await filesOf({ keep: 1, path: folder, sources: null, bucket }).claim({ store: store.id, isShared: false });
  t.ok(s3.objects.has('some/log/log.json'), 'one that was copied from a folder gets it');
  const [{ name } = { name: '' }] = (await log.state()).files;
  s3.delete(`some/log/${name}`);
  await t.rejects(another().insist(), { code: 'event_log_missing', message: /has none of the 1 files/ });
  await add({ id: '3', event: 'A', userId: 'u' });
  await another().stop();
  t.match(warnings, [{ err: { code: 'event_log_missing' } }]);
});

t.test('lets one machine write, and another with the same store once the first is dead for five minutes', async (t) => {
  const { s3, bucket, folder, store } = await inBucket(t);
  const writer = { store: store.id, isShared: false };
  const process = (machine: string) => filesOf({ keep: 1, path: join(folder, machine), sources: null, bucket });
  await process('a').claim(writer);
  await process('a').claim(writer);
  await t.rejects(process('b').claim(writer), { code: 'event_log_taken', message: /with a copy of this store/ });
  s3.age(4 * MINUTE);
  await process('a').claim(writer);
  s3.age(4 * MINUTE);
  await t.rejects(process('b').claim(writer), { code: 'event_log_taken' }, 'it was renewed');
  s3.age(MINUTE);
  s3.fail(/^PUT some\/log\/log\.json/, 'cut answer');
  await process('b').claim(writer);
  await t.rejects(process('a').claim(writer), { code: 'event_log_taken' });
  const shared = { ...writer, isShared: true };
  s3.age(5 * MINUTE);
  await Promise.all([process('c').claim(shared), process('d').claim(shared)]);
});

t.test('leaves nothing of a deleted user in any object, also if the bucket is away at first', async (t) => {
  const { s3, another, add, advance, query } = await inBucket(t);
  for (const id of ['1', '2']) {
    await add(
      { id, event: 'A', userId: 'gone-7' },
      { id: `s${id}`, event: 'A', userId: 'stays-8', anonymousId: 'gone-9' },
    );
    await another().stop();
    advance(DAY);
  }
  t.same(s3.holding('gone-7').length, 2);
  await add({ id: '3', event: 'A', userId: 'gone-7' });
  const request = { ids: { users: ['gone-7'], anonymous: ['gone-9'] }, sources: null };
  s3.away(true);
  await t.rejects(another().erase([request]), { code: 'bucket_failed' });
  s3.away(false);
  await another().erase([request]);
  t.same([...s3.holding('gone-7'), ...s3.holding('gone-9')], []);
  t.equal(s3.holding('stays-8').length, 2);
  t.same(await query(ids), [['s1'], ['s2']]);
  t.match(s3.objects.get('some/log/deletions.jsonl')?.body.toString(), /"n":1/);
  s3.fail(/^PUT .*deletions/, 'cut answer');
  await another().erase([{ ids: { users: ['stays-8'], anonymous: [] }, sources: null }]);
  t.same(s3.holding('stays-8'), []);
});

t.test('removes what an upload leaves that was given up and is carried out later', async (t) => {
  const { s3, another, add, advance, warnings, query } = await inBucket(t);
  const request = { ids: { users: ['gone-7'], anonymous: [] }, sources: null };
  s3.fail(/^PUT .*parquet/, 'late');
  await add({ id: '1', event: 'A', userId: 'gone-7' }, { id: '2', event: 'A', userId: 'stays-8' });
  await another().stop();
  t.same(warnings, [], 'the second try succeeds');
  s3.fail(/^PUT .*parquet/, 'late', 'late', 'late', 'late', 'late');
  await add({ id: '3', event: 'A', userId: 'gone-7' });
  await another().stop();
  t.match(warnings, [{ err: { code: 'bucket_failed' } }], 'the others do not');
  advance(10 * MINUTE);
  await another().start();
  await another().erase([request]);
  t.same(s3.holding('gone-7'), []);
  s3.land();
  t.equal(s3.holding('gone-7').length, 2, 'the bucket carries them out after the deletion');
  advance(49 * MINUTE);
  await another().erase([request]);
  t.same(s3.holding('gone-7'), [], 'the next deletion removes them');
  t.same(await query(ids), [['2']]);
});

t.test('removes late uploads an hour later without another deletion', async (t) => {
  const { s3, another, add, advance } = await inBucket(t);
  s3.fail(/^PUT .*parquet/, 'late');
  await add({ id: '1', event: 'A', userId: 'gone-7' });
  await another().stop();
  const keeper = another();
  await keeper.erase([{ ids: { users: ['gone-7'], anonymous: [] }, sources: null }]);
  await keeper.start();
  s3.land();
  t.equal(s3.holding('gone-7').length, 1);
  advance(60 * MINUTE);
  await keeper.start();
  t.same(s3.holding('gone-7'), []);
});

t.test('deletes users from files that the store does not list, as one that was restored', async (t) => {
  const { s3, another, add, log } = await inBucket(t);
  await add({ id: '1', event: 'A', userId: 'gone-7' }, { id: '2', event: 'A', userId: 'stays-8' });
  await another().stop();
  const [{ name } = { name: '' }] = (await log.state()).files;
  const unlisted = `some/log/${name.replace(/[^/]+$/, 'unlisted.parquet')}`;
  s3.put(unlisted, s3.objects.get(`some/log/${name}`)?.body ?? '');
  await another().erase([{ ids: { users: ['gone-7'], anonymous: [] }, sources: null }]);
  t.same(s3.holding('gone-7'), []);
  t.ok(s3.holding('stays-8').includes(unlisted), 'the others stay in it');
});

t.test('repeats the deletions that a restored store lacks, in files that were put back', async (t) => {
  const { s3, bucket, another, add, store, folder: path } = await inBucket(t);
  await add({ id: '1', event: 'A', userId: 'gone-7' }, { id: '2', event: 'A', userId: 'stays-8' });
  await another().stop();
  const base = dirname(path);
  const folder = join(base, 'copy');
  const url = `sqlite:${join(base, 'rollcall.db')}`;
  const eventLog = filesOf({ keep: 1, path, sources: null, bucket });
  await backup({ url, engines: [], store, keys: [], base, folder, eventLog, clock: systemClock });
  await another().erase([{ ids: { users: ['gone-7'], anonymous: [] }, sources: null }]);
  t.same(s3.holding('gone-7'), []);
  for (const name of globSync('**/*.parquet', { cwd: join(folder, 'events') }))
    s3.put(`some/log/${name}`, readFileSync(join(folder, 'events', name)));
  t.equal(s3.holding('gone-7').length, 1);
  const restored = await keptLog(t, { folder, bucket });
  await t.rejects(restored.keeper.insist(), { code: 'event_log_taken' }, 'the store that was copied may be alive');
  s3.age(5 * MINUTE);
  await restored.keeper.insist();
  // The copy was made under the lease of the log.
  restored.advance(MINUTE);
  await restored.keeper.start();
  t.same(s3.holding('gone-7'), []);
  t.same(restored.holding('gone-7'), []);
  t.same(await restored.query(ids), [['2']]);
  t.same(restored.warnings, []);
});
