import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, renameSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { systemClock } from '../../src/kernel/clock.ts';
import { moveStore } from '../../src/store/copy/move.ts';
import { openPostgresStore } from '../../src/store/postgres/store.ts';
import { openSqliteStore } from '../../src/store/sqlite/store.ts';
import {
  accept,
  attempt,
  audience,
  backlogOf,
  bodies,
  change,
  claim,
  codeOf,
  ids,
  leaseOf,
  message,
  REFUSED,
  retryAt,
  run,
  settle,
  settlement,
} from '../contract/store-fixture.ts';
import { startFastPostgres } from '../helpers/postgres.ts';

const server = await startFastPostgres();
const TTL = 60_000;
const clock = systemClock;

await t.test('moves all data of a store, and sends nothing twice', async (t) => {
  const path = join(t.testdir(), 'store.db');
  const to = await server.database();
  const old = await openSqliteStore({ path, maxQueued: 100, clock });
  const owner = await old.join(TTL);
  const fence = await leaseOf(old);
  await old.saveRun(run(), fence, audience());
  await old.accept({ messages: [change('k'), change('waits')], step: { run: 'run-1', fence, cursor: '2', epoch: 0 } });
  const dead = message({ messageId: 'dead', userId: 'gone' });
  await accept(old, dead, message({ messageId: 'retried' }));
  const taken = await claim(old, owner);
  const of = (id: string) => taken.filter(({ messageId, conflict }) => messageId === id || conflict === id);
  await old.settle(owner, [settlement(of('dead')[0] ?? taken[0]!, REFUSED, [attempt({ at: clock.now() })])]);
  await settle(old, owner, of('retried'), retryAt(clock.now()));
  // One is in flight when the process dies, with a newer one waiting for it.
  await accept(old, change('waits', { body: '"newest"' }), message({ messageId: 'new', body: '"ü"' }));
  await old.suppress(['kept out'], null, true);
  await old.markEndpoint({ endpoint: 'e1', destination: 'crm', pausedAt: 5, deadSince: null });
  const past = { subject: 'destination', name: 'crm', step: 'hour', since: 0, until: 2 ** 50, limit: 10 } as const;
  await old.addHistory(clock.now(), [{ ...past, counts: { delivered: 7 }, took: [1, 2], pending: 3 }]);
  const history = await old.history(past);
  const letters = await old.deadLetters({ limit: 10 });
  const given = { from: `sqlite:${path}`, to, clock };
  t.equal(await codeOf(moveStore(given)), 'bad_usage', 'a process has the file open');
  await old.leave(owner);
  const before = await backlogOf(old);
  const first = await old.join(TTL);
  const expected = ids(await claim(old, first));
  await old.leave(first);
  await old.close();

  const shown: (readonly [table: string, done: number, total: number])[] = [];
  const moved = await moveStore({ ...given, onProgress: (...progress) => void shown.push(progress) });
  t.match(moved, { file: `${path}.moved`, rows: { delivery: before.pending, dead_letter: 1, run: 1, seen: 6 } });
  t.same(shown[0], ['delivery', before.pending, before.pending]);
  t.notOk(existsSync(path), 'the file is put aside');
  t.equal(await codeOf(moveStore(given)), 'bad_usage', 'a move that is over');
  const store = await openPostgresStore({ url: to, maxQueued: 100, clock });
  t.teardown(() => store.close());
  t.same(await backlogOf(store), before);
  // Times are told by this process's clock, from the database's: a millisecond may lie between them.
  const timeless = (all: typeof letters) => all.map((letter) => ({ ...letter, firstAt: 0, lastAt: 0 }));
  t.same(timeless(await store.deadLetters({ limit: 10 })), timeless(letters));
  t.match(await accept(store, dead, message({ userId: 'kept out' })), { duplicates: 1, suppressed: 1 });
  t.match(await store.run('run-1'), { cursor: '2', sent: 2 });
  t.match(await store.runProgress('run-1'), { deliveries: 2, untried: 1, superseded: 1 });
  t.same(await store.audience('big_spenders'), audience());
  t.equal((await store.attempts({ userId: 'gone', limit: 10 })).length, 1);
  t.same(await store.history(past), history);
  t.match(await store.endpoints(), [{ endpoint: 'e1', destination: 'crm' }]);
  t.ok((await leaseOf(store)).token > fence.token, 'a fence of before is stale');
  const claims = await claim(store, await store.join(TTL));
  t.same(ids(claims), expected, 'with the same Idempotency-Keys');
  t.ok(bodies(claims).includes('"newest"') && bodies(claims).includes('"ü"'));
  await accept(store, message());
  t.notOk(expected.includes((await claim(store, await store.join(TTL)))[0]?.id ?? ''), 'no id comes again');

  const another = join(t.testdir({}), 'another.db');
  await (await openSqliteStore({ path: another, maxQueued: 100, clock })).close();
  t.equal(await codeOf(moveStore({ from: `sqlite:${another}`, to, clock })), 'bad_usage', 'the target has been in use');
  t.ok(existsSync(another));
});

for (const [step, what] of [
  ['rmSync', 'removes the marker'],
  ['renameSync', 'renames the file'],
] as const) {
  await t.test(`finishes a move that was killed when it ${what}, and moves nothing twice`, async (t) => {
    const path = join(t.testdir({}), 'store.db');
    const given = { from: `sqlite:${path}`, to: await server.database(), clock };
    const old = await openSqliteStore({ path, maxQueued: 100, clock });
    await accept(old, message());
    await old.close();
    const child = fork(new URL('fixtures/crash-in-move.ts', import.meta.url), [path, given.to, step]);
    const [, signal] = await once(child, 'exit');
    t.equal(signal, 'SIGKILL');
    t.same([existsSync(path), existsSync(`${path}-id`)], [true, step === 'rmSync']);
    t.same(await moveStore(given), { file: `${path}.moved`, rows: null });
    t.notOk(existsSync(`${path}-id`));
    const store = await openPostgresStore({ url: given.to, maxQueued: 100, clock });
    t.teardown(() => store.close());
    t.same(await backlogOf(store), { pending: 1, dead: 0 });
  });
}

await t.test('moves no store to a database that has been used since it was moved there', async (t) => {
  const path = join(t.testdir({}), 'store.db');
  const given = { from: `sqlite:${path}`, to: await server.database(), clock };
  await (await openSqliteStore({ path, maxQueued: 100, clock })).close();
  await moveStore(given);
  renameSync(`${path}.moved`, path);
  const again = await openSqliteStore({ path, maxQueued: 100, clock });
  await accept(again, message());
  await again.close();
  await t.rejects(moveStore(given), { code: 'bad_usage', message: /has been used since/ });
  t.ok(existsSync(path));
});

await t.test('moves a store with an event log only if the log may stay behind', async (t) => {
  const path = join(t.testdir({}), 'store.db');
  const given = { from: `sqlite:${path}`, to: await server.database(), clock };
  const old = await openSqliteStore({ path, maxQueued: 100, clock });
  await old.accept({ messages: [message()], step: null, logged: true });
  await old.close();
  await t.rejects(moveStore(given), { code: 'event_log_stays', message: /add --without-event-log/ });
  t.ok(existsSync(path), 'nothing was changed');
  t.match(await moveStore({ ...given, withoutEventLog: true }), { file: `${path}.moved`, rows: { delivery: 1 } });
});

await t.test('renames the file of a store behind a link, not the link', async (t) => {
  const folder = t.testdir({});
  const [path, link] = [join(folder, 'store.db'), join(folder, 'link.db')];
  const old = await openSqliteStore({ path, maxQueued: 100, clock });
  await accept(old, message());
  await old.close();
  symlinkSync(path, link);
  const moved = await moveStore({ from: `sqlite:${link}`, to: await server.database(), clock });
  t.match(moved, { file: `${path}.moved`, rows: { delivery: 1 } });
  t.same(readdirSync(folder).sort(), ['link.db', 'store.db.moved']);
});

await server.stop();
