import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import Fastify from 'fastify';
import t from 'tap';
import { createReceiver, receiver, type StandaloneOptions, type StoredRequest } from '../../receivers/index.ts';
import { sqliteStore } from '../../receivers/sqlite.ts';
import { signed, webhook } from '../../receivers/testing.ts';
import { manualClock } from './helpers/clock.ts';
import { silent } from './helpers/hosts.ts';
import { secret } from './helpers/samples.ts';

function start(options: Partial<StandaloneOptions>) {
  const hooks = createReceiver({ secret, on: {}, log: silent, ack: 'stored', ...options } as StandaloneOptions);
  const send = async (body: unknown, key = secret) => {
    const response = await hooks.handle(new Request('http://app/hooks', { method: 'POST', ...signed(body, key) }));
    return { status: response.status, ...((await response.json()) as Record<string, unknown>) };
  };
  return { ...hooks, send };
}

type Receiver = ReturnType<typeof start>;

t.test("handles only a receiver's own messages in a shared file, in one process or in several", async (t) => {
  const file = `${t.testdir()}/in.db`;
  const shared = sqliteStore(file);
  const apart = sqliteStore(file);
  const seen: string[] = [];
  const receivers = Object.entries({ crm: shared, 'crm|eu': shared, billing: apart, '': apart }).map(([name, store]) =>
    start({ name, store, secret: `s-${name}`, on: { track: ({ event }) => void seen.push(`${name} ${event}`) } }),
  );
  const [crm, eu, billing, unnamed] = receivers as [Receiver, Receiver, Receiver, Receiver];
  t.match(await billing.send(webhook('track', { event: 'paid' }), 's-billing'), { stored: true });
  t.match(await unnamed.send(webhook('track', { event: 'any' }), 's-'), { stored: true });
  t.match(await crm.send(webhook('track', { event: 'won' }), 's-crm'), { stored: true });
  t.match(await eu.send(webhook('track', { event: 'won' }), 's-crm|eu'), { stored: true });
  while (seen.length < 4) await turn();
  t.same(seen.toSorted(), [' any', 'billing paid', 'crm won', 'crm|eu won']);
  for (const each of receivers) await each.close();
  for (const each of [shared, apart]) each.close();
});

t.test('sqlite: gives each receiver its own owner and its own crashes in a shared file', async (t) => {
  const file = `${t.testdir()}/in.db`;
  let time = 0;
  const store = sqliteStore(file, { lease: 100, now: () => time });
  const other = sqliteStore(file, { lease: 100, now: () => time });
  t.teardown(() => [store, other].forEach((each) => void each.close()));
  for (const name of ['crm', 'billing']) {
    store.keep([{ key: name, body: Buffer.from('{}'), url: '/', secret: 0, scope: `${name}|ab`, user: name }]);
  }
  t.same([store.own('one', 'crm'), other.own('two', 'crm'), other.own('two', 'billing')], [true, false, true]);
  for (const name of ['crm', 'billing']) store.tried(name);
  time = 100;
  t.equal(other.own('two', 'crm'), true);
  t.match(await other.due(10, [], 'crm'), [{ key: 'crm', crashes: 1 }]);
  t.match(await other.due(10, [], 'billing'), [{ key: 'billing', crashes: 0 }]);
});

t.test("keeps no user of another tenant with the same id waiting for a tenant's failing handler", async (t) => {
  const store = sqliteStore(':memory:');
  const seen: string[] = [];
  const { send, close } = start({
    store,
    secret: () => ['secret of a', 'secret of b'],
    on: {
      track({ event }) {
        seen.push(event);
        if (event === 'of a') throw new Error('not today');
      },
    },
  });
  for (const tenant of ['of a', 'of b']) {
    await send(webhook('track', { event: tenant, userId: 'u1' }), `secret ${tenant}`);
  }
  for (let turns = 0; seen.length < 2 && turns < 100; turns += 1) await turn();
  t.same(seen, ['of a', 'of b']);
  await close();
  store.close();
});

const kept = (key: string, user?: string): StoredRequest => ({
  key,
  body: Buffer.from(JSON.stringify(webhook('track', { userId: user }))),
  url: '/',
  secret: 0,
  scope: '|ab',
  user,
});

const works: Record<string, () => unknown> = {
  'returns at once': () => undefined,
  'returns a promise that is fulfilled': async () => undefined,
  fails() {
    throw new Error('not today');
  },
};

for (const [what, work] of Object.entries(works)) {
  t.test(`gives others their turn, however much waits for a handler that ${what}`, async (t) => {
    const store = sqliteStore(':memory:');
    store.keep(Array.from({ length: 500 }, (_, index) => kept(`k${index}`)));
    const app = Fastify();
    let handled = 0;
    const track = () => {
      handled += 1;
      return work();
    };
    // A clock that stands still: breaks are due by what was done, too.
    app.register(receiver, { secret, ack: 'stored', store, clock: manualClock(), on: { track, error() {} } });
    await app.ready();
    t.ok(handled < 100, 'the app is ready before it is all handled');
    let most = 0;
    for (let before = handled; handled < 500; before = handled) {
      await turn();
      most = Math.max(most, handled - before);
    }
    t.ok(most < 100, `${most} in one turn`);
    await app.close();
    store.close();
  });
}

interface Row {
  readonly key: string;
  readonly scope: string;
  readonly user: string | undefined;
  seq: number;
  due: number;
  state: 'stored' | 'failed' | 'done';
}

/** What may be tried now, by the words of the port. */
function dueOf(rows: readonly Row[], working: readonly string[], receiver: string, now: number): string[] {
  const stored = rows.filter(({ state }) => state === 'stored').toSorted((one, other) => one.seq - other.seq);
  const isSameUser = (one: Row, other: Row) =>
    one.user !== undefined && one.user === other.user && one.scope === other.scope;
  const atWork = rows.filter(({ key }) => working.includes(key));
  return stored
    .filter((row) => row === stored.find((other) => row === other || isSameUser(row, other)))
    .filter((row) => row.due <= now && row.scope.startsWith(`${receiver}|`))
    .filter((row) => !atWork.some((other) => other === row || isSameUser(row, other)))
    .map(({ key }) => key);
}

const STATES: Record<string, Row['state']> = { done: 'done', 'give up': 'failed' };
const among = (count: number) => fc.integer({ min: 0, max: count - 1 });
const step = fc.record({
  kind: fc.constantFrom('keep', 'done', 'fail', 'give up', 'retry', 'delete'),
  key: among(12),
  user: fc.constantFrom('u1', 'u2', undefined),
  at: among(10),
  working: fc.array(among(12), { maxLength: 2 }),
});

t.test('sqlite: finds due the oldest of each user who is not at work, in any history', async (t) => {
  const history = fc.property(fc.array(step, { minLength: 10, maxLength: 40 }), (steps) => {
    let now = 0;
    const store = sqliteStore(':memory:', { now: () => now });
    const rows = new Map<string, Row>();
    let seq = 0;
    for (const { kind, key: place, user, at, working } of steps) {
      now += 1;
      const key = `k${place}`;
      const scope = place % 2 === 0 ? 'a|1' : 'a|2';
      const row = rows.get(key);
      if (kind === 'keep') {
        const sameUser = row === undefined ? user : row.user;
        const [isNew] = store.keep([{ ...kept(key, sameUser), scope }]) as readonly boolean[];
        if (isNew) rows.set(key, { key, scope, user: sameUser, seq: ++seq, due: 0, state: 'stored' });
      } else if (kind === 'retry') {
        store.retry([key]);
        if (row?.state === 'failed') Object.assign(row, { state: 'stored', due: 0 });
      } else if (row?.state === 'stored') {
        if (kind === 'fail') store.tryAgain(key, now + at);
        if (kind === 'give up') store.giveUp(key, 'enough');
        if (kind === 'delete')
          store.transaction({ opening: undefined }, (db) => db.exec(`delete from request where key = '${key}'`));
        const opening = { key, change: undefined, holder: 'h' };
        if (kind === 'done' && store.begin(opening) === 'new') store.done(opening);
        Object.assign(row, { due: kind === 'fail' ? now + at : 0, state: STATES[kind] ?? 'stored' });
        if (kind === 'delete') rows.delete(key);
      }
      const busy = working.map((each) => `k${each}`);
      const found = (store.due(100, busy, 'a') as readonly StoredRequest[]).map((each) => each.key);
      assert.deepEqual(found, dueOf([...rows.values()], busy, 'a', now));
    }
    store.close();
  });
  fc.assert(history, { numRuns: 100 });
  t.pass('in all of them');
});
