import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Fastify from 'fastify';
import isMatch from 'lodash/isMatch.js';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { receiver } from '../../receivers/fastify.ts';
import type { TrackBody } from '../../receivers/index.ts';
import { App } from '../../src/app.ts';
import { parseConfig } from '../../src/config/load.ts';
import { type Clock, systemClock } from '../../src/kernel/clock.ts';
import { ADMIN, AS_ADMIN } from '../helpers/admin.ts';
import { launch } from '../helpers/program.ts';
import { until } from '../helpers/until.ts';

type Track = TrackBody;

const SECRET = 'a-secret-of-alerts';

/** Hears notices with the kit, as an app of yours would; each is given out once. */
async function hearing(t: Test) {
  const app = Fastify();
  const heard: Track[] = [];
  const asked: { readonly isIt: (notice: Track) => boolean; readonly resolve: (notice: Track) => void }[] = [];
  await app.register(receiver, {
    path: '/alerts',
    secret: SECRET,
    on: {
      track: async (message: Track) => {
        heard.push(message);
        for (const { isIt, resolve } of asked) if (isIt(message)) resolve(message);
      },
    },
  });
  const chats: unknown[] = [];
  app.post('/slack/hush-path', async ({ body }) => void chats.push(body));
  app.post('/hook', async (_request, reply) => reply.code(410).send());
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  t.teardown(() => app.close());
  return {
    url,
    heard,
    chats,
    next(isIt: (notice: Track) => boolean): Promise<Track> {
      const found = heard.find(isIt);
      if (found) return Promise.resolve(found);
      const { promise, resolve } = Promise.withResolvers<Track>();
      asked.push({ isIt, resolve });
      return promise;
    },
  };
}

const about = (event: string, kind: string) => (notice: Track) =>
  notice.event === event && (notice.properties as { kind?: string }).kind === kind;

const config = (url: string, more: object = {}) => ({
  store: 'sqlite:./rollcall.db',
  listen: { host: '127.0.0.1', port: 0 },
  network: { allow: ['127.0.0.0/8'] },
  admin: ADMIN,
  sources: [{ id: 'shop', writeKey: 'key' }],
  destinations: [{ name: 'crm', sources: ['shop'], webhookUrl: `${url}/hook?token=hush` }],
  audiences: [{ name: 'Broken', source: 'shop', sql: 'select nothing' }],
  alerts: {
    notify: [
      { url: `${url}/alerts`, secret: SECRET },
      { url: `${url}/slack/hush-path`, format: 'slack' },
    ],
    rules: { deadLetters: { after: '0s' } },
  },
  ...more,
});

/** Time goes by ten times as fast: what waits a minute waits six seconds, and an endpoint has half a second to answer. */
const SPEED = 10;
function fast(): Clock {
  const [wall, steady] = [systemClock.now(), systemClock.monotonic()];
  const elapsed = () => (systemClock.monotonic() - steady) * SPEED;
  return {
    ...systemClock,
    now: () => Math.round(wall + elapsed()),
    monotonic: () => elapsed(),
    uptime: () => elapsed(),
    after: (ms, callback) => systemClock.after(ms / SPEED, callback),
    sleep: (ms, signal) => systemClock.sleep(ms / SPEED, signal),
  };
}

t.test('notifies of a paused and a resumed endpoint, signed and in a chat', async (t) => {
  const people = await hearing(t);
  const text = JSON.stringify(config(people.url));
  const parsed = parseConfig(text, { file: 'rollcall.yaml', folder: t.testdir(), env: {} });
  const lines: string[] = [];
  const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) });
  const app = await App.create(parsed, { log, clock: fast() });
  t.teardown(() => app.close());
  await app.start({ collect: true, schedules: false });
  const ask = async (path: string, options: RequestInit = {}) =>
    (await fetch(`${app.address}/api/v1${path}`, { headers: AS_ADMIN, ...options })).json() as Promise<
      ReturnType<typeof JSON.parse>
    >;
  const body = JSON.stringify({ version: 1, type: 'track', event: 'e', userId: 'u' });
  await app.accept('shop', [{ type: 'track', messageId: 'm', userId: 'u', integrations: null, body }]);
  const opened = await people.next(about('Alert Opened', 'endpointPaused'));
  const { data } = await ask('/endpoints?destination=crm');
  t.match(opened.properties, {
    message: 'An endpoint is paused',
    alerts: [
      { subject: data[0].endpoint, destination: 'crm', message: /crm is paused at .*\/hook until it is resumed/ },
    ],
  });
  t.match(await ask('/overview'), { attention: [{ kind: 'endpointPaused' }, { kind: 'deadLetters' }] });
  t.match((await ask('/alerts?state=open')).data.toReversed()[0], {
    ...{ kind: 'endpointPaused', subject: data[0].endpoint, closedAt: null, told: Boolean },
  });
  const hooks = (await ask('/endpoints')).data.slice(1);
  t.match(hooks, [
    { destination: 'rollcall:alerts:json' },
    { destination: 'rollcall:alerts:slack', url: `${people.url}/…` },
  ]);
  // It has half a second, which a busy machine may take away once.
  await until(async () => {
    const { data } = await ask('/destinations/rollcall:alerts:slack/test', { method: 'POST' });
    return isMatch(data[0], { outcome: 'success', status: 200 });
  });
  await app.store.markEndpoint({ endpoint: data[0].endpoint, destination: 'crm', pausedAt: null, deadSince: null });
  const closed = await people.next(about('Alert Closed', 'endpointPaused'));
  t.match(closed.properties, { message: 'Over: an endpoint is paused' });
  t.match((await ask('/alerts?state=closed')).data, [{ kind: 'endpointPaused', closedAt: String }]);
  // Another alert may arrive first: announcements have no order.
  t.ok(people.chats.some((chat) => /"An endpoint is paused: crm/.test(JSON.stringify(chat))));
  t.ok(
    people.chats.some((chat) => /nothing is wrong/.test(JSON.stringify(chat))),
    'the one that it was tried with',
  );
  for (const secret of ['hush', SECRET]) {
    t.notOk(
      lines.some((line) => line.includes(secret)),
      `${secret} in the log`,
    );
    t.notMatch(JSON.stringify([people.chats, await ask('/endpoints'), await ask('/alerts')]), secret);
  }
  const kinds = people.heard.map(({ event, properties }) => `${event} ${(properties as { kind: string }).kind}`);
  t.equal(new Set(kinds).size, kinds.length, 'each was told once');
});

t.test('keeps nothing of a user whose id failed a run, once the user is deleted', async (t) => {
  const victim = 'victim@example.com';
  const people = await hearing(t);
  const folder = t.testdir({ 'people.csv': `id\n7\n${victim}\n` });
  const rows = "read_csv('people.csv', columns = { id: 'varchar' })";
  const sqls = {
    cast: `select id::integer::text as user_id from ${rows}`,
    // An author's own text is not known to quote a value.
    said: `select if(id = '7', id, error('who is ' || id)) as user_id from ${rows}`,
  };
  const audiences = Object.entries(sqls).map(([name, sql]) => ({ name, source: 'shop', sql }));
  const destinations = [{ name: 'crm', sources: ['shop'], webhookUrl: `${people.url}/slack/hush-path` }];
  const text = JSON.stringify(config(people.url, { audiences, destinations }));
  const lines: string[] = [];
  const log = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) });
  const app = await App.create(parseConfig(text, { file: 'rollcall.yaml', folder, env: {} }), { log, clock: fast() });
  t.teardown(() => app.close());
  await app.start({ collect: true, schedules: true });
  const ask = async (path: string, options: RequestInit = {}) =>
    (await fetch(`${app.address}${path}`, { headers: AS_ADMIN, ...options })).text();
  const order = (path: string, body: object) =>
    ask(path, {
      method: 'POST',
      headers: { ...AS_ADMIN, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  for (const key of Object.keys(sqls)) await order(`/api/v1/audiences/${key}/sync`, {});
  const failed = async () => (await app.store.runs({ states: ['failed'], limit: 9 })).length;
  await until(async () => (await failed()) >= 2);
  await people.next(about('Alert Opened', 'runFailed'));
  const shown = async () => {
    const pages = ['/runs', '/alerts', '/overview', '/audiences', '/messages', '/dead-letters', '/attempts', '/audit'];
    const own = (await app.store.runs({ limit: 9 })).map(({ id }) => `/runs/${id}`);
    return Promise.all([...pages, ...own].map((path) => ask(`/api/v1${path}`)));
  };
  t.match((await shown()).join(), victim, 'it is there before, in the words of the author');
  const byCast = lines.filter((line) => !line.includes('who is'));
  t.ok(byCast.length > 0);
  t.notOk(byCast.some((line) => line.includes(victim)));

  writeFileSync(join(folder, 'people.csv'), 'id\n7\n');
  const before = lines.length;
  const { data } = JSON.parse(
    await order('/regulations', { regulationType: 'DELETE_ONLY', subjectType: 'USER_ID', subjectIds: [victim] }),
  );
  await until(async () => (await ask(`/regulations/${data.regulateId}`)).includes('"FINISHED"'));
  for (const key of Object.keys(sqls)) await order(`/api/v1/audiences/${key}/sync`, {});
  await until(async () => (await app.store.runs({ states: ['done'], limit: 9 })).length >= 2);
  t.notMatch((await shown()).join(), victim);
  t.notMatch(await ask('/metrics'), victim);
  t.notOk(
    lines.slice(before).some((line) => line.includes(victim)),
    'the log',
  );
  await app.close();
  for (const file of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (file.isFile()) t.notOk(readFileSync(join(file.parentPath, file.name)).includes(victim), file.name);
  }
});

t.test('continues after a kill and restart without repeating alerts', async (t) => {
  const people = await hearing(t);
  const folder = t.testdir();
  const file = join(folder, 'rollcall.yaml');
  writeFileSync(file, JSON.stringify({ ...config(people.url), store: 'sqlite:./rollcall.db' }));
  const first = launch(['start', '-c', file]);
  const sync = async (program: ReturnType<typeof launch>, key: string) =>
    (
      await fetch(`${await program.address}/api/v1/audiences/${key}/sync?wait=true`, {
        method: 'POST',
        headers: AS_ADMIN,
      })
    ).text();
  await sync(first, 'broken');
  await people.next(about('Alert Opened', 'runFailed'));
  first.child.kill('SIGKILL');
  await first.ended;
  const second = launch(['start', '-c', file]);
  const address = await second.address;
  const body = JSON.stringify({ event: 'e', userId: 'u' });
  const headers = { authorization: `Basic ${btoa('key:')}`, 'content-type': 'application/json' };
  await (await fetch(`${address}/v1/track`, { method: 'POST', headers, body })).text();
  await people.next(about('Alert Opened', 'endpointPaused'));
  second.child.kill('SIGTERM');
  await second.ended;
  const failed = people.heard.filter(about('Alert Opened', 'runFailed'));
  t.equal(failed.length, 1);
  t.match(failed[0]?.properties, { alerts: [{ subject: 'broken', audience: 'broken', message: /nothing/ }] });
});
