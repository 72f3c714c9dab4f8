import { randomInt } from 'node:crypto';
import pg from 'pg';
import t, { type Test } from 'tap';
import type { App } from '../../src/app.ts';
import { EventSends } from '../../src/events/sends.ts';
import { folderFiles } from '../../src/store/events/files.ts';
import type { EventSend, SendOrder } from '../../src/store/port.ts';
import { randomNumbers } from '../crash/random.ts';
import { AS_ADMIN } from '../helpers/admin.ts';
import { isOnPostgres } from '../helpers/store.ts';
import { until } from '../helpers/until.ts';
import { destinations, LOCAL, type Posted } from './helpers/destinations.ts';
import { loggingService, send } from './helpers/logging-app.ts';

const DAY = 86_400_000;
const SEED = Number(process.env['SEND_SEED'] ?? randomInt(2 ** 31));
const SOURCES = ['shop', 'web', 'personas'].map((id) => ({ id, writeKey: `${id}-key` }));
const ALL = { since: 0, until: Number.MAX_SAFE_INTEGER, type: null, event: null, source: null };

const order = (destination: string, changes: Partial<SendOrder> = {}): SendOrder => ({
  destination,
  ...ALL,
  ...changes,
});

async function isOver(app: App, { id }: EventSend): Promise<boolean> {
  const { send, deliveries } = await app.sends.find(id);
  // Those of users who were deleted count as superseded.
  const { deliveries: queued, delivered, dead, superseded } = deliveries;
  return send.state !== 'sending' && queued === delivered + dead + superseded;
}

/** The bodies, by message id and time, as they were before they were sent again. */
function bodies(posted: readonly Posted[], isReplay: boolean): object[] {
  const sorted = posted.map(({ body }) => {
    const { replay, ...context } = body['context'] as Record<string, unknown>;
    if (replay !== (isReplay ? true : undefined)) throw new Error(`context.replay of ${body.messageId} is ${replay}`);
    return { ...body, context };
  });
  return sorted.sort((a, b) => (a.messageId < b.messageId ? -1 : 1));
}

/** Any message that collection takes: with odd fields, values and times. */
function anyMessage(random: (most: number) => number, id: number): object {
  const one = <T>(...values: T[]) => values[random(values.length) - 1] as T;
  const maybe = (value: object) => one({}, value);
  const text = one('a', 'ü', '"quoted"\n', '💐', '__proto__', "it's", '\\u0041', '', '1e5');
  const value = one<unknown>(1, 0.1, 1e21, -0.5e-9, true, null, text, [1, { a: [] }], { b: { c: text } });
  const type = one('track', 'track', 'track', 'identify', 'page', 'screen', 'group', 'alias');
  const common = {
    ...{ type, messageId: `m${id}`, userId: one<unknown>(`u${random(9)}`, 7) },
    ...maybe({ anonymousId: `a${random(5)}` }),
    ...maybe({ context: { library: { name: text }, personas: 1, replay: false, test: 1, traits: { a: value } } }),
    ...maybe({
      integrations: one({ All: false }, { Webhooks: true, All: false }, { Webhooks: false }, { Other: true }, {}),
    }),
    ...maybe({
      timestamp: one('2026-02-28T10:00:00.25Z', '2033-01-01T00:00:00.000Z', '+012345-01-01T00:00:00Z', 'soon'),
    }),
    ...maybe({ extra: value, 1: value }),
    ...maybe({ properties: { total: value, [text]: value } }),
    ...maybe({ traits: { plan: value } }),
  };
  if (type === 'track')
    return { ...common, event: one('Order Completed', 'Signed Up', text || 'e'), ...maybe({ name: value }) };
  if (type === 'group') return { ...common, groupId: one<unknown>('g', 3), event: value };
  if (type === 'alias') return { ...common, previousId: `old${random(9)}`, name: value };
  if (type === 'identify') return { ...common, name: value, event: value, groupId: value };
  return { ...common, ...maybe({ name: text }), event: value };
}

t.test('sends what a destination would have got, had it been connected', async (t) => {
  t.comment(`SEND_SEED=${SEED}`);
  const random = randomNumbers(SEED);
  const service = loggingService(t);
  const receiver = await destinations(t);
  const filters: Record<string, object> = {
    all: { sources: ['shop', 'web'] },
    some: { sources: ['shop', 'web'], types: ['track', 'page', 'alias'], events: ['Order Completed', '__proto__'] },
    web: { sources: ['web'], types: ['identify', 'group', 'screen', 'track'] },
  };
  const named = (prefix: string) =>
    Object.entries(filters).map(([name, filter]) => receiver.named(`${prefix}-${name}`, filter));
  const changes = { sources: SOURCES, network: LOCAL };
  const times: number[] = [];
  let id = 0;
  for (let day = 0; day < 3; day += 1) {
    // Each stop seals the log; small files of a past day are merged.
    const app = await service.open([], { ...changes, destinations: named('live') });
    await app.start({ collect: true, schedules: false });
    for (let batch = 0; batch < 4; batch += 1) {
      times.push(service.clock.now());
      for (const { id: source } of SOURCES) {
        const messages = Array.from({ length: 30 }, (_, index) => anyMessage(random, id + index));
        id += messages.length;
        await send(app, messages, `${source}-key`);
      }
    }
    await until(async () => (await app.store.backlog()).every(({ pending }) => pending === 0));
    if (day < 2) await app.close();
    service.advance(DAY);
  }
  const app = await service.open([], { ...changes, destinations: named('late') });
  await app.start({ collect: true, schedules: false });
  for (const name of Object.keys(filters)) {
    const begun = await app.sends.begin(order(`late-${name}`));
    await until(() => isOver(app, begun));
    const expected = receiver.to(`live-${name}`);
    t.ok(expected.length > 10, `${expected.length} events for ${name}`);
    t.same(bodies(receiver.to(`late-${name}`), true), bodies(expected, false), name);
    t.equal(begun.total, expected.length, 'as it was counted');
    t.equal((await app.sends.find(begun.id)).send.sent, expected.length);
  }
  const span = { since: times[2] as number, until: times[9] as number };
  const chosen: [Partial<SendOrder>, (posted: Posted['body']) => boolean][] = [
    [
      span,
      ({ receivedAt }) => Date.parse(String(receivedAt)) >= span.since && Date.parse(String(receivedAt)) < span.until,
    ],
    [{ type: 'page' }, ({ type }) => type === 'page'],
    [{ event: 'Order Completed' }, ({ type, event }) => type === 'track' && event === 'Order Completed'],
    [{ type: 'page', event: 'Order Completed' }, () => false],
  ];
  for (const [filter, isWanted] of chosen) {
    const before = receiver.to('late-all').length;
    const begun = await app.sends.begin(order('late-all', filter));
    await until(() => isOver(app, begun));
    const expected = receiver.to('live-all').filter(({ body }) => isWanted(body));
    t.same(bodies(receiver.to('late-all').slice(before), true), bodies(expected, false), JSON.stringify(filter));
  }
  t.same(
    (await app.sends.list({ limit: 10 })).map(({ send: { state } }) => state),
    Array(7).fill('done'),
  );
});

/**
 * A service with one event of each user in its log, half of them in files. Its destination was connected afterwards, and
 * answers 503 until `take` is called: its queue has room for eight of them, which are queued in two parts.
 */
async function withEvents(t: Test, users: readonly string[]) {
  const service = loggingService(t);
  const receiver = await destinations(t);
  const first = await service.open([], { sources: SOURCES });
  await first.start({ collect: true, schedules: false });
  const half = Math.ceil(users.length / 2);
  const event = (userId: string, index: number) => ({ type: 'track', event: 'A', userId, messageId: `m${index}` });
  const events = users.map(event);
  await send(first, events.slice(0, half), 'shop-key');
  await first.close();
  const second = await service.open([], { sources: SOURCES });
  await second.start({ collect: true, schedules: false });
  await send(second, events.slice(half), 'shop-key');
  receiver.refused.add('late');
  const open = async (given: readonly object[] = [receiver.named('late')]) => {
    const store = { url: service.url, maxQueued: 16 };
    const app = await service.open([], { store, sources: SOURCES, network: LOCAL, destinations: given });
    await app.start({ collect: true, schedules: false });
    return app;
  };
  /** From then on the destination takes everything, from a process for which all retries are due. */
  const take = async (app: App) => {
    receiver.refused.clear();
    await app.close();
    // The process that had found the endpoint dead would say so again.
    const { store } = await service.open([], { sources: SOURCES });
    for (const state of await store.endpoints())
      await store.markEndpoint({ ...state, pausedAt: null, deadSince: null });
    service.advance(3_600_000);
    if (isOnPostgres) await onPostgres(service.url, 'UPDATE rollcall.delivery SET due_at = 0');
    return open();
  };
  const to = () => receiver.to('late').flatMap(({ body }) => (body['type'] === 'delete' ? [] : [body['userId']]));
  return { service, receiver, open, take, to };
}

/** Its clock is the database's. */
async function onPostgres(url: string, statement: string): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  await client.query(statement);
  await client.end();
}

const numbered = (count: number) => Array.from({ length: count }, (_, index) => `u${index}`);
const stateOf = async (app: App, { id }: EventSend) => (await app.sends.find(id)).send;

t.test('leaves out users who are deleted or suppressed while it goes on, and fills no queue', async (t) => {
  const users = numbered(40);
  const { open, take, to } = await withEvents(t, users);
  const app = await open();
  const begun = await app.sends.begin(order('late'));
  t.equal(begun.total, 40);
  await until(async () => (await stateOf(app, begun)).sent >= 4);
  // As many as the others may have of the queue.
  await send(
    app,
    numbered(8).map((userId) => ({ type: 'track', event: 'Live', userId })),
    'shop-key',
  );
  t.ok((await stateOf(app, begun)).sent <= 8, 'the rest waits');
  t.same(await app.store.deadLetters({ limit: 10 }), []);
  await app.regulations.file({ type: 'DELETE_ONLY', sources: null, userIds: ['u3', 'u30', 'u31'], by: 'me' });
  await app.regulations.file({ type: 'SUPPRESS_ONLY', sources: null, userIds: ['u35'], by: 'me' });
  await until(async () => (await app.store.regulations({ limit: 9 })).every(({ status }) => status === 'FINISHED'));
  const later = await take(app);
  await until(() => isOver(later, begun));
  const gone = ['u3', 'u30', 'u31', 'u35'];
  const past = to().slice().sort();
  const wanted = [...users, ...numbered(8)].filter((user) => !gone.includes(user));
  t.same([...new Set(past)], [...new Set(wanted)].sort());
  t.equal(past.length, wanted.length, 'each once');
  t.same(await later.store.deadLetters({ limit: 10 }), []);
});

t.test('leaves out users whose deletion begins after the log was read', async (t) => {
  const { open, take, to, service } = await withEvents(t, ['u1', 'u2', 'u3']);
  const app = await open([]);
  const late = await open();
  const { folder, clock } = service;
  let filed = false;
  const sends = new EventSends({
    ...{ store: app.store, clock, files: folderFiles(`${folder}/events`), log: { info() {}, warn() {} } },
    destinations: () => late.destinations(),
    isEnabledBy: () => true,
    onQueued: () => {},
    lastLive: () => Number.NEGATIVE_INFINITY,
    async accept(source, messages, options) {
      if (!filed) {
        filed = true;
        await app.regulations.file({ type: 'DELETE_ONLY', sources: null, userIds: ['u2'], by: 'me' });
        await until(async () => (await app.store.deletions(null)).epoch > 0);
      }
      return app.accept(source, messages, options);
    },
  });
  await late.close();
  const begun = await sends.begin(order('late'));
  sends.start();
  await until(async () => (await stateOf(app, begun)).state === 'done');
  await sends.stop();
  t.equal((await stateOf(app, begun)).sent, 2);
  await until(async () => (await app.store.regulations({ limit: 1 })).every(({ status }) => status === 'FINISHED'));
  await app.close();
  const again = await take(await open());
  await until(() => isOver(again, begun));
  t.same(to().sort(), ['u1', 'u3']);
});

t.test('waits for a destination that is removed, disabled or paused, and can be cancelled', async (t) => {
  const { open, take, to, receiver } = await withEvents(t, numbered(40));
  const app = await open();
  const begun = await app.sends.begin(order('late'));
  await until(async () => (await stateOf(app, begun)).sent >= 4);
  const waitsFor = async (other: App) => (await other.sends.find(begun.id)).waitsFor;
  const endpoint = app.destinations()[0]?.endpoints[0]?.id as string;
  await app.store.markEndpoint({ endpoint, destination: 'late', pausedAt: 1, deadSince: null, refusal: null });
  t.match(await waitsFor(app), /No endpoint/);
  await app.close();
  const without = await open([]);
  const { sent } = await stateOf(without, begun);
  t.match(await waitsFor(without), /not in the configuration/);
  await without.close();
  const disabled = await open([receiver.named('late', { enabled: false })]);
  t.match(await waitsFor(disabled), /disabled/);
  await disabled.close();
  const last = await open();
  t.equal((await stateOf(last, begun)).sent, sent, 'nothing more is queued for an endpoint that is paused');
  t.match(await last.sends.cancel(begun.id), { send: { state: 'cancelled', sent }, waitsFor: null });
  await t.rejects(last.sends.cancel('unknown'), { code: 'not_found' });
  const later = await take(last);
  await until(() => isOver(later, begun));
  t.equal(new Set(to()).size, sent, 'what was queued is delivered, and nothing more');
  t.match(await later.sends.cancel(begun.id), { send: { state: 'cancelled' } });
});

t.test('answers over the management API', async (t) => {
  const { open, take, to } = await withEvents(t, ['u1', 'u2']);
  const app = await take(await open());
  const ask = async (path: string, body?: object) => {
    const response = await fetch(`${app.address}/api/v1/event-log/${path}`, {
      headers: { ...AS_ADMIN, 'content-type': 'application/json' },
      ...(body ? { method: 'POST', body: JSON.stringify(body) } : {}),
    });
    return {
      status: response.status,
      ...((await response.json()) as { id: string; deliveries: { delivered: number } }),
    };
  };
  const asked = { destination: 'late', since: '2026-01-01', event: 'A' };
  t.match(await ask(`count?${new URLSearchParams(asked)}`), { status: 200, events: 2 });
  t.match(await ask('count?destination=lat&since=2026-01-01'), { status: 404, code: 'not_found' });
  const begun = await ask('sends', asked);
  t.match(begun, { status: 200, state: 'sending', total: 2, event: 'A', type: null, source: null });
  await until(async () => (await ask(`sends/${begun.id}`)).deliveries.delivered === 2);
  t.match(await ask(`sends/${begun.id}`), { state: 'done', sent: 2, waitsFor: null });
  t.match(await ask('sends?limit=1'), { data: [{ id: begun.id }], next: null });
  t.match(await ask(`sends/${begun.id}/cancel`, {}), { status: 200, state: 'done' });
  t.same(to().sort(), ['u1', 'u2']);
  t.same(await app.store.runs({ limit: 9 }), [], 'it is no run of an audience');
  t.equal(await app.store.run(begun.id), null);
  const metrics = await (await fetch(`${app.address}/metrics`, { headers: AS_ADMIN })).text();
  t.match(metrics, 'rollcall_past_events_total{destination="late"} 2');
  const deeds = (await app.store.audits({ limit: 9 })).map(({ action, target }) => [action, target]);
  t.same(deeds, [
    ['events.cancel', begun.id],
    ['events.send', 'late'],
  ]);
});

t.test('takes its time while live messages come in', async (t) => {
  const { open, service } = await withEvents(t, ['u1', 'u2', 'u3']);
  const app = await open([]);
  const late = await open();
  await late.close();
  const { folder, clock } = service;
  const paused: number[] = [];
  const sleep = (ms: number, signal?: AbortSignal) => {
    // Leases are renewed after longer ones.
    if (ms <= 100) paused.push(ms);
    return clock.sleep(ms, signal);
  };
  const sends = new EventSends({
    ...{ store: app.store, files: folderFiles(`${folder}/events`), log: { info() {}, warn() {} } },
    ...{ clock: { ...clock, sleep }, accept: app.accept },
    destinations: () => late.destinations(),
    isEnabledBy: () => true,
    onQueued: () => {},
    lastLive: () => clock.monotonic(),
  });
  const begun = await sends.begin(order('late'));
  sends.start();
  await until(async () => (await stateOf(app, begun)).state === 'done');
  await sends.stop();
  t.equal(paused.length, 1);
});
