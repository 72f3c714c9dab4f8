import { DatabaseSync } from 'node:sqlite';
import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import {
  type ComputedBody,
  createReceiver,
  type Failure,
  type Handlers,
  type Message,
  memoryStore,
  type Reason,
  type ReceiverStore,
  reasons,
  type StandaloneOptions,
} from '../../receivers/index.ts';
import { postgresStore } from '../../receivers/postgres.ts';
import { sqliteStore } from '../../receivers/sqlite.ts';
import { envelope, signed, webhook } from '../../receivers/testing.ts';
import { appPool, startFastPostgres } from '../helpers/postgres.ts';
import { manualClock, signal } from './helpers/clock.ts';
import { silent } from './helpers/hosts.ts';
import { changeForms, membership, secret } from './helpers/samples.ts';

function start(options: Partial<StandaloneOptions>) {
  const hooks = createReceiver({ secret, on: {}, log: silent, ...options } as StandaloneOptions);
  const send = async (body: unknown, key = secret) => {
    const response = await hooks.handle(new Request('http://app/hooks', { method: 'POST', ...signed(body, key) }));
    return { status: response.status, ...((await response.json()) as Record<string, unknown>) };
  };
  return { ...hooks, send };
}

/** The call of a computed trait, as the sender writes it. */
const trait = (key: string, userId: string, traits: Record<string, unknown>, sequence?: number) =>
  webhook('identify', {
    userId,
    traits,
    context: {
      personas: {
        computation_class: 'trait',
        computation_id: `id-${key}`,
        computation_key: key,
        ...(sequence !== undefined && { sequence }),
      },
    },
  });

t.test('passes changes of computed traits to their handlers in order, and no late ones', async (t) => {
  const seen: unknown[] = [];
  const { send } = start({
    on: {
      any: (message: Message) => void seen.push(message.type),
      trait: {
        ltv: {
          changed: ({ userId, traits }) => void seen.push([userId, traits['ltv']]),
          gone: ({ userId }) => void seen.push([userId, 'gone']),
        },
      },
      identify: () => t.fail('it belongs to the trait'),
    },
  });
  t.match(await send(trait('ltv', 'u1', { ltv: 10 }, 1)), { status: 200 });
  t.match(await send(trait('ltv', 'u1', { ltv: null }, 3)), { status: 200 });
  t.match(await send(trait('ltv', 'u1', { ltv: 20 }, 2)), { status: 200, stale: true });
  t.match(await send(trait('ltv', 'u2', { ltv: 5, orders: null }, 2)), { status: 200 });
  t.same(seen, ['identify', ['u1', 10], 'identify', ['u1', 'gone'], 'identify', ['u2', 5]]);
});

t.test('passes unnamed audiences and traits to a wildcard, but no names of prototypes', async (t) => {
  const seen: unknown[] = [];
  const keep =
    (what: string) =>
    ({ userId, context }: { userId: string; context: { personas?: { computation_key?: string } } }) =>
      void seen.push([what, context.personas?.computation_key, userId]);
  const { send } = start({
    on: {
      audience: { vips: { entered: keep('vip') }, '*': { entered: keep('in'), exited: keep('out') } },
      trait: { '*': { changed: keep('trait') } },
      identify: () => t.fail('a wildcard takes all'),
    },
  });
  await send(membership('vips', 'u1', true, 1));
  await send(membership('vips', 'u1', false, 2));
  await send(membership('constructor', 'u2', true, 1));
  await send(membership('other', 'u3', false, 1));
  await send(trait('toString', 'u4', { toString: 1 }, 1));
  t.same(seen, [
    ['vip', 'vips', 'u1'],
    ['in', 'constructor', 'u2'],
    ['out', 'other', 'u3'],
    ['trait', 'toString', 'u4'],
  ]);
});

t.test('logs once for each key that handlers of other keys leave unhandled', async (t) => {
  const change = (kind: string, key: string, userId: string) => {
    const body = JSON.parse(membership(key, userId, true));
    body.context.personas.computation_class = kind;
    return body;
  };
  const sent = ['u1', 'u2'].flatMap((userId) =>
    ['audience', 'trait'].flatMap((kind) => ['club', 'vips', '__proto__x'].map((key) => change(kind, key, userId))),
  );
  const group = { club: {} };
  const others: [Handlers, number][] = [
    [{ audience: group, trait: group }, 4],
    [{ audience: group }, 2],
    [{ around: async (_message, _request, next) => next(), audience: group }, 2],
    [{ audience: { ...group, '*': {} } }, 0],
    [{ audience: group, identify() {} }, 0],
    [{ audience: group, any() {} }, 0],
    [{ audience: group, unhandled() {} }, 0],
    [{ delete() {} }, 0],
  ];
  for (const [on, expected] of others) {
    const warned: unknown[] = [];
    const { send } = start({ on, log: { ...silent, warn: (fields) => warned.push(fields) } });
    for (const each of sent) t.equal((await send(each)).status, 200);
    t.equal(warned.length, expected, Object.keys(on).join());
    if (expected > 0) t.match(warned, [{ audience: 'vips', handled: ['club'] }]);
  }

  const warned: unknown[] = [];
  const { send } = start({ on: { audience: group }, log: { ...silent, warn: (fields) => warned.push(fields) } });
  for (let index = 0; index < 200; index += 1) await send(change('audience', `key_${index}`, 'u1'));
  t.equal(warned.length, 100, 'a sender that invents keys does not fill the log');
});

t.test('keeps order for identify handlers too, and ignores an invalid sequence', async (t) => {
  const seen: unknown[] = [];
  const { send } = start({ on: { identify: ({ traits }) => void seen.push(traits['vips']) } });
  await send(membership('vips', 'u1', true, 5));
  t.match(await send(membership('vips', 'u1', false, 4)), { stale: true });
  for (const odd of [1.5, -1, 1e300]) t.match(await send(membership('vips', 'u1', false, odd)), { status: 200 });
  t.same(seen, [true, false, false, false]);
});

t.test('passes a change to one handler from either form, once for a pair', async (t) => {
  const seen: unknown[] = [];
  const keep =
    (name: string) =>
    ({ userId, reason, cause, changedAt, columns, traits }: ComputedBody) =>
      void seen.push([name, userId, reason, cause, changedAt, columns, traits]);
  const on: Handlers = {
    audience: { vips: { entered: keep('entered'), exited: keep('exited'), changed: keep('changed') } },
    trait: { ltv: { changed: keep('value'), gone: keep('gone') } },
    identify: () => t.fail('audiences and traits have handlers'),
    track: () => t.fail('audiences and traits have handlers'),
  };
  const cause = { messageId: 'm1' };
  const changedAt = '2026-03-31T12:00:00.000Z';
  const changes = [
    changeForms('audience', 'vips', 'u1', { vips: true, email: 'a@b.c' }, { sequence: 0, reason: 'entered', cause }),
    changeForms(
      'audience',
      'vips',
      'u1',
      { vips: true, email: 'd@b.c' },
      { sequence: 1, reason: 'changed', changedAt },
    ),
    changeForms('audience', 'vips', 'u1', { vips: false, email: 'd@b.c' }, { sequence: 2, reason: 'exited' }),
    changeForms('trait', 'ltv', 'u1', { ltv: 5, orders: 1 }, { sequence: 3, reason: 'entered' }),
    changeForms('trait', 'ltv', 'u1', { ltv: null, orders: null }, { sequence: 4, reason: 'exited' }),
  ];
  const expected = [
    ['entered', 'u1', 'entered', cause, undefined, { email: 'a@b.c' }, { vips: true, email: 'a@b.c' }],
    ['changed', 'u1', 'changed', undefined, changedAt, { email: 'd@b.c' }, { vips: true, email: 'd@b.c' }],
    ['exited', 'u1', 'exited', undefined, undefined, { email: 'd@b.c' }, { vips: false, email: 'd@b.c' }],
    ['value', 'u1', 'entered', undefined, undefined, { orders: 1 }, { ltv: 5, orders: 1 }],
    ['gone', 'u1', 'exited', undefined, undefined, { orders: null }, { ltv: null, orders: null }],
  ];
  const orders: Record<string, readonly string[]> = {
    identify: changes.map(([identify]) => identify),
    track: changes.map(([, track]) => track),
    both: changes.flat(),
    'both, the event first': changes.flatMap(([identify, track]) => [track, identify]),
  };
  for (const [order, bodies] of Object.entries(orders)) {
    const single = start({ on });
    for (const body of bodies) t.equal((await single.send(body)).status, 200);
    t.same(seen.splice(0), expected, order);
    const batched = start({ on });
    t.match(await batched.send(envelope(bodies)), { status: 200, rejected: undefined });
    t.same(seen.splice(0), expected, `${order}, in a batch`);
    const last = signal();
    const store = sqliteStore(`${t.testdir()}/receiver.db`);
    const stored = start({ on: { ...on, delete: () => last.resolve() }, ack: 'stored', store });
    for (const body of [...bodies, webhook('delete', { userId: 'u1' })]) await stored.send(body);
    await last.promise;
    await stored.close();
    t.same(seen.splice(0), expected, `${order}, stored`);
  }
});

t.test('handles a change from the other form if the first one failed', async (t) => {
  const seen: unknown[] = [];
  const [identify, track] = changeForms('audience', 'vips', 'u1', { vips: true }, { sequence: 7 });
  const { send } = start({
    on: {
      audience: {
        vips: {
          entered({ type }) {
            seen.push(type);
            if (seen.length === 1) throw new Error('not now');
          },
        },
      },
    },
  });
  t.equal((await send(identify)).status, 500);
  t.match(await send(track), { status: 200, duplicate: undefined });
  t.match(await send(identify), { status: 200, duplicate: true });
  t.same(seen, ['identify', 'track']);
});

t.test('passes both forms on to the handlers of their kinds where the audience has none', async (t) => {
  const seen: unknown[] = [];
  const { send } = start({ on: { identify: ({ type }) => seen.push(type), track: ({ event }) => seen.push(event) } });
  for (const sequence of [2, 1]) {
    for (const form of changeForms('audience', 'vips', 'u1', { vips: true }, { sequence })) await send(form);
  }
  t.same(seen, ['identify', 'Audience Entered'], 'each in the order of its own form');
});

t.test('`only` keeps changes from handlers for other reasons, and answers them with 200', async (t) => {
  const called = new Set<string>();
  const keptAway = new Set<string>();
  const name = ({ reason, traits }: ComputedBody) => `${Object.values(traits)[0]} ${reason}`;
  const handler = (change: ComputedBody) => void called.add(name(change));
  const passed = async (only: 'changes' | Reason[]) => {
    called.clear();
    keptAway.clear();
    const { send } = start({
      on: {
        audience: { vips: { entered: handler, exited: handler, changed: handler, only } },
        trait: { ltv: { changed: handler, gone: handler, only } },
        keptAway: (change) => void keptAway.add(name(change)),
      },
    });
    let sequence = 0;
    for (const reason of reasons) {
      for (const traits of [{ vips: true }, { vips: false }, { ltv: 5 }, { ltv: null }]) {
        sequence += 1;
        const [key] = Object.keys(traits) as [string];
        const kind = key === 'vips' ? 'audience' : 'trait';
        const form = changeForms(kind, key, 'u1', traits, { sequence, reason })[sequence % 2] as string;
        const answer = await send(form);
        const isCalled = called.has(`${Object.values(traits)[0]} ${reason}`);
        t.match(answer, { status: 200, keptAway: isCalled ? undefined : true });
      }
    }
    t.equal(called.size + keptAway.size, reasons.length * 4);
    return [...called];
  };
  const left = ['first_sync', 'entered', 'exited', 'changed', 'definition', 'returning', 'withdrawn', 'retired'];
  const expected = [
    ...['true entered', '5 entered', 'true changed', '5 changed'],
    ...left.flatMap((reason) => [`false ${reason}`, `null ${reason}`]),
  ];
  t.same((await passed('changes')).sort(), expected.sort());
  const named = ['backfill', 'first_sync'].flatMap((reason) =>
    ['true', 'false', '5', 'null'].map((value) => `${value} ${reason}`),
  );
  t.same((await passed(['first_sync', 'backfill'])).sort(), named.sort());
  for (const only of ['change', ['enter'], 5]) {
    t.throws(() => start({ on: { audience: { vips: { only } } } as unknown as Handlers }), /on\.audience\.vips\.only/);
  }
});

const stores: Record<string, (t: { testdir(): string }) => ReceiverStore> = {
  memory: () => memoryStore(),
  sqlite: (t) => sqliteStore(`${t.testdir()}/receiver.db`),
};

for (const [name, open] of Object.entries(stores)) {
  t.test(`${name}: lets no tenant silence the changes of another, whatever sequence it sends`, async (t) => {
    const seen: string[] = [];
    const tenants = ['secret of a', 'secret of b'];
    const options: Partial<StandaloneOptions> = {
      secret: tenants,
      store: open(t),
      on: { audience: { vips: { entered: (_, { secret }) => void seen.push(`${secret}`) } } },
    };
    const { send } = start(options);
    t.match(await send(membership('vips', 'u1', true, Number.MAX_SAFE_INTEGER), tenants[0]), { status: 200 });
    t.same(await send(membership('vips', 'u1', true, 5), tenants[1]), { status: 200, received: true });
    t.same(seen, ['0', '1']);
  });

  t.test(`${name}: shares only the store between receivers of different names`, async (t) => {
    const store = open(t);
    const body = membership('vips', 'u1', true, 5);
    const on = { any: () => {} };
    const [crm, mail] = ['crm', 'mail'].map((name) => start({ store, name, on }));
    for (const receiver of [crm, mail]) t.same(await receiver?.send(body), { status: 200, received: true });
    t.match(await crm?.send(body), { status: 200, duplicate: true });
  });
}

t.test('gives up a handler that never returns, and runs the next change of its user', async (t) => {
  const clock = manualClock();
  const failures: Failure[] = [];
  const seen: number[] = [];
  const { send, close } = start({
    clock,
    store: memoryStore({ now: clock.now }),
    stuckAfter: 60_000,
    drain: 0,
    on: {
      audience: {
        vips: {
          entered: () => new Promise(() => {}),
          exited: ({ context }) => void seen.push(context.personas?.sequence as number),
        },
      },
      error: (_, failure) => void failures.push(failure),
    },
  });
  t.teardown(close);
  const first = send(membership('vips', 'u1', true, 1));
  const second = send(membership('vips', 'u1', false, 2));
  await turn();
  for (const step of [20_000, 20_000, 20_000, 20_000]) {
    clock.advance(step);
    await turn();
    await turn();
  }
  t.match(await first, { status: 503, code: 'deadline' });
  t.match(await second, { status: 503, code: 'deadline' });
  t.match(failures, [{ stage: 'handler', late: true, gaveUp: true }]);
  while (seen.length === 0) await turn();
  t.same(seen, [2]);
});

t.test('postgres: keeps changes of one user in order over three processes, however slow a handler is', async (t) => {
  const server = await startFastPostgres();
  t.teardown(() => server.stop());
  const url = await server.database();
  const app = appPool(url);
  await app.query('create table member (user_id text primary key, is_member boolean not null)');
  const [entering, release] = [signal(), signal()];
  const write = (user: string, member: boolean) =>
    app.query('insert into member values ($1, $2) on conflict (user_id) do update set is_member = excluded.is_member', [
      user,
      member,
    ]);
  const pods = await Promise.all(
    [0, 1, 2].map(async () => {
      const pool = appPool(url);
      const store = postgresStore({ pool });
      await store.migrate();
      const on: StandaloneOptions['on'] = {
        audience: {
          vips: {
            async entered({ userId }) {
              entering.resolve();
              await release.promise;
              await write(userId, true);
            },
            exited: async ({ userId }) => void (await write(userId, false)),
          },
        },
      };
      return { ...start({ store, on }), end: () => pool.end() };
    }),
  );
  const [one, two, three] = pods as [(typeof pods)[0], (typeof pods)[0], (typeof pods)[0]];
  const entered = one.send(membership('vips', 'u1', true, 1));
  await entering.promise;
  const exited = two.send(membership('vips', 'u1', false, 2));
  t.match(await three.send(membership('vips', 'u2', false, 2)), { status: 200 }, 'another user waits for nobody');
  release.resolve();
  t.match(await entered, { status: 200 });
  t.match(await exited, { status: 200 });
  t.match(await three.send(membership('vips', 'u1', true, 1)), { duplicate: true });
  t.match(await three.send(membership('vips', 'u1', true, 1.0)), { duplicate: true });
  t.same((await app.query('select * from member order by 1')).rows, [
    { user_id: 'u1', is_member: false },
    { user_id: 'u2', is_member: false },
  ]);
  for (const pod of pods) await pod.close();
  await Promise.all([...pods.map((pod) => pod.end()), app.end()]);
});

t.test("ack 'stored': handles a user's requests in order, concurrently with those of others", async (t) => {
  const store = sqliteStore(':memory:');
  const seen: string[] = [];
  const release = signal();
  const track = async ({ userId, event }: { userId?: string | undefined; event: string }) => {
    if (event === 'first') await release.promise;
    seen.push(`${userId} ${event}`);
    if (userId === 'u2') release.resolve();
  };
  const { send, close } = start({ ack: 'stored', store, on: { track } });
  for (const [userId, event] of [
    ['u1', 'first'],
    ['u1', 'second'],
    ['u2', 'only'],
  ]) {
    t.match(await send(webhook('track', { userId, event })), { stored: true });
  }
  while (seen.length < 3) await turn();
  t.same(seen, ['u2 only', 'u1 first', 'u1 second']);
  await close();
  store.close();
});

t.test('aborts the signal of a handler that lost its lease, and reports to on.error', async (t) => {
  const clock = manualClock();
  const failures: Failure[] = [];
  const begun = signal<AbortSignal>();
  const release = signal();
  const { send } = start({
    clock,
    store: { ...memoryStore({ now: clock.now, lease: 3_000 }), renew: () => false },
    on: {
      async track(_, { signal: aborted }) {
        begun.resolve(aborted);
        await release.promise;
      },
      error: (_, failure) => void failures.push(failure),
    },
  });
  const answer = send(webhook('track'));
  const aborted = await begun.promise;
  t.equal(aborted.aborted, false);
  clock.advance(1_000);
  t.equal(aborted.aborted, true);
  t.match(failures, [{ stage: 'store' }]);
  release.resolve();
  await answer;
});

t.test('reports no lost lease if the handler ends before its renewal does', async (t) => {
  const clock = manualClock();
  const failures: Failure[] = [];
  const begun = signal();
  const release = signal();
  const renewal = signal<boolean>();
  const { send } = start({
    clock,
    store: { ...memoryStore({ now: clock.now, lease: 3_000 }), renew: () => renewal.promise },
    on: {
      async track() {
        begun.resolve();
        await release.promise;
      },
      error: (_, failure) => void failures.push(failure),
    },
  });
  const answer = send(webhook('track'));
  await begun.promise;
  clock.advance(1_000);
  release.resolve();
  t.match(await answer, { status: 200 });
  renewal.resolve(false);
  await turn();
  t.same(failures, []);
});

t.test("ack 'stored': runs no more handlers at once than concurrency, however much is stored", async (t) => {
  const store = sqliteStore(':memory:');
  const done = signal();
  let working = 0;
  let most = 0;
  let handled = 0;
  const { send, close } = start({
    ack: 'stored',
    store,
    concurrency: 3,
    on: {
      async track() {
        working += 1;
        most = Math.max(most, working);
        await turn();
        working -= 1;
        handled += 1;
        if (handled === 40) done.resolve();
      },
    },
  });
  await Promise.all(Array.from({ length: 40 }, (_, user) => send(webhook('track', { userId: `u${user}` }))));
  await done.promise;
  t.equal(most, 3);
  await close();
  store.close();
});

/** Ends the lease of the process that had the file, as time does. */
function expire(file: string): void {
  const db = new DatabaseSync(file);
  db.exec('update owner set until = 0');
  db.close();
}

t.test("ack 'stored': sets aside the request that ends the process, and handles its neighbours", async (t) => {
  const file = `${t.testdir()}/inbox.db`;
  const store = sqliteStore(file);
  const keep = (key: string) =>
    store.keep([
      {
        key,
        body: Buffer.from(JSON.stringify(webhook('track'))),
        url: '/',
        secret: 0,
        scope: '|',
        user: undefined,
      },
    ]);
  for (const key of ['|poison', '|a', '|b']) keep(key);
  // Two processes ended while all three were at work.
  for (const owner of ['first', 'second']) {
    store.own(owner, '');
    for (const { key } of await store.due(10, [], '')) store.tried(key);
    expire(file);
  }
  const alone: string[][] = [];
  const failures: Failure[] = [];
  const done = signal();
  let working: string[] = [];
  const { close } = start({
    ack: 'stored',
    store,
    on: {
      async track(_, { key }) {
        working.push(key as string);
        alone.push([...working]);
        await turn();
        working = working.filter((other) => other !== key);
        if (alone.length === 3) done.resolve();
      },
      error: (_, failure) => void failures.push(failure),
    },
  });
  await done.promise;
  await close();
  t.same(alone, [['|poison'], ['|a'], ['|b']], 'each suspect was at work alone');
  keep('|c');
  store.own('third', '');
  for (let crashes = 0; crashes < 3; crashes += 1) {
    store.tried('|c');
    expire(file);
    store.own(`crashed ${crashes}`, '');
  }
  expire(file);
  const next = start({
    ack: 'stored',
    store,
    on: { track: () => t.fail('it is not tried again'), error: (_, failure) => void failures.push(failure) },
  });
  while (failures.length === 0) await turn();
  t.match(failures, [{ gaveUp: true }]);
  t.match(store.givenUp(10), [{ key: '|c', reason: /ended 3 times/ }]);
  await next.close();
  store.close();
});
