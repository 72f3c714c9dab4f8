import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import omitBy from 'lodash/omitBy.js';
import t, { type Test } from 'tap';
import { systemClock } from '../../src/kernel/clock.ts';
import { until } from '../helpers/until.ts';
import type { Json } from './contract.ts';
import { oddRequests, unknownFilters } from './hostile.ts';
import { SECRETS, type Service, startService, V1 } from './service.ts';

/** Paths with something that exists in place of each parameter. */
type Things = Readonly<Record<string, string>>;

const filled = (path: string, things: Things) =>
  path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(things[name] ?? `no-${name}`));

const FILING = { regulationType: 'DELETE_ONLY', subjectType: 'USER_ID', subjectIds: ['nobody'] };
/** A time when there were no events. */
const PAST = { destination: 'crm', since: '2000-01-01', until: '2000-01-02' };

async function populated(t: Test) {
  const service = await startService(t, { eventLog: { path: './events' } });
  const { app, json, post } = service;
  await app.sync.run(['regulars', 'guarded'], { now: Date.parse('2000-01-01') });
  await app.sync.run();
  await until(async () => (await json(`${V1}/dead-letters`)).data.length === 4);
  const endpoint = (await json(`${V1}/endpoints`)).data[0].endpoint;
  const held = (await json(`${V1}/runs?state=held`)).data[0].run;
  // Not that of the guarded audience, which its held run takes the place of once it is approved.
  const id = (await json(`${V1}/dead-letters?userId=u2`)).data[0].id;
  const { id: send } = (await (await post(`${V1}/event-log/sends`, PAST)).json()) as Json;
  const { regulateId: deletion } = ((await (await post('/regulations', FILING)).json()) as Json).data;
  await until(async () => (await json(`/regulations/${deletion}`)).data.regulation.overallStatus === 'FINISHED');
  return { ...service, things: { key: 'regulars', run: held, endpoint, destination: 'crm', id, send, deletion } };
}

/** The database's times cross as distances from now: two readings may differ by a millisecond. */
const timeless = (row: unknown) => omitBy(row as object, (_, name) => /^at$|At$/.test(name));

t.test('the management API', async (t) => {
  const { ask, json, post, things, app, lines } = await populated(t);
  const document = await json(`${V1}/openapi.json`);
  const paths = Object.entries<Record<string, Json>>(document.paths);
  const answers: string[] = [JSON.stringify(document)];

  await t.test('has a document of every route, and answers as documented', async (t) => {
    const names = paths.map(([path]) => path.replace(V1, ''));
    for (const path of ['/audiences', '/runs/{run}/approve', '/endpoints/{endpoint}/resume', '/dead-letters/replay'])
      t.ok(names.includes(path), path);
    for (const [path, { get }] of paths) {
      // A stream without an end.
      if (!get || path.endsWith('/events')) continue;
      const query = path.endsWith('/why') ? '?user=u1' : path.endsWith('/count') ? `?${new URLSearchParams(PAST)}` : '';
      const response = await ask(filled(path, things) + query);
      const text = await response.text();
      answers.push(text);
      // Its form is looked at with every request.
      t.equal(response.status, 200, path);
    }
  });

  await t.test('refuses unknown filters', (t) => unknownFilters(t, { ask, document, things }));

  await t.test('gives each token exactly its rights', async (t) => {
    for (const [path, methods] of paths) {
      if (path.endsWith('/session')) continue;
      for (const method of Object.keys(methods)) {
        const status = async (token: string | null) => {
          const response = await ask(filled(path, {}), { method: method.toUpperCase(), token });
          await response.body?.cancel();
          return response.status;
        };
        const what = `${method} ${path}`;
        t.equal(await status(null), 401, what);
        // A trial reads, with a body.
        const reads = method === 'get' || path.endsWith('/try');
        t.equal(await status(reads ? SECRETS.operator : SECRETS.reader), 403, what);
        if (!reads) t.not(await status(SECRETS.operator), 403, what);
      }
    }
    t.equal((await post('/regulations', FILING, SECRETS.operator)).status, 403);
    t.equal((await ask('/regulations/x', { token: SECRETS.reader })).status, 403);
    t.equal((await ask('/metrics', { token: SECRETS.operator })).status, 403);
    t.equal((await ask('/metrics', { token: SECRETS.reader })).status, 200);
  });

  await t.test('pages through runs, attempts, dead letters and the audit log without gaps', async (t) => {
    for (const path of ['/runs', '/attempts', '/dead-letters', '/dead-letters?order=oldest', '/audit']) {
      const join = path.includes('?') ? '&' : '?';
      const whole = (await json(`${V1}${path}${join}limit=500`)).data;
      t.ok(whole.length >= 3, `${path} has some`);
      const found: unknown[] = [];
      for (let next: string | null = ''; next !== null; ) {
        const page: Json = await json(`${V1}${path}${join}limit=2${next ? `&cursor=${next}` : ''}`);
        found.push(...page.data);
        next = page.next;
      }
      t.strictSame(found.map(timeless), whole.map(timeless), path);
      t.equal((await ask(`${V1}${path}${join}cursor=!`)).status, 400);
    }
  });

  await t.test('finds things by the names that people know', async (t) => {
    const count = async (path: string) => (await json(V1 + path)).data.length;
    t.equal(await count('/dead-letters?userId=u2'), 1);
    t.equal(await count('/dead-letters?reason=expired'), 0);
    t.ok((await count('/attempts?userId=u2&outcome=refused')) > 0);
    t.equal(await count('/attempts?outcome=success'), 0);
    t.equal(await count('/runs?key=regulars&state=done'), 2);
    t.match(await json(`${V1}/audiences/regulars/why?user=u1`), { member: true, changes: [{ change: 'entered' }] });
    const person = await json(`${V1}/people/u1`);
    t.match(person, { user: 'u1', asOf: null, failures: [], deletion: { suppressed: [], requests: [] } });
    t.match(
      person.memberships.find(({ key }: { key: string }) => key === 'regulars'),
      { kind: 'audience', member: true, change: { change: 'entered', run: String, told: [{ destination: String }] } },
    );
    const then = await json(`${V1}/people/u1?at=1990-01-01`);
    t.notOk(then.memberships.some(({ member }: { member: boolean }) => member));
    const members = await json(`${V1}/audiences/regulars/members?limit=1`);
    t.match(members, { data: [{ userId: 'u0' }], next: String });
    const rest = await json(`${V1}/audiences/regulars/members?cursor=${members.next}`);
    t.match([rest.data.length > 0, rest.data[0].userId !== 'u0', rest.next], [true, true, null]);
    const run = (await json(`${V1}/runs?key=regulars&state=done`)).data.find(({ first }: { first: boolean }) => first);
    const entered = await json(`${V1}/runs/${run.run}/changes?limit=1`);
    t.match(entered, { data: [{ userId: 'u0', change: 'entered' }], next: String });
    t.notMatch(await json(`${V1}/runs/${run.run}/changes?cursor=${entered.next}`), { data: [{ userId: 'u0' }] });
    t.match(await json(`${V1}/runs/${run.run}/changes?cursor=x`), { code: 'invalid_request', message: /cursor/ });
    for (const list of ['/audiences', '/endpoints', '/destinations', '/sources']) {
      const all = (await json(V1 + list)).data;
      const paged: Json[] = [];
      for (let next = ''; next !== null; ) {
        const page = await json(`${V1}${list}?limit=1${next && `&cursor=${next}`}`);
        paged.push(...page.data);
        next = page.next;
      }
      t.ok(all.length > 0, list);
      t.same(
        paged.map(({ key, endpoint, destination, id }) => key ?? endpoint ?? destination ?? id),
        all.map(({ key, endpoint, destination, id }: Json) => key ?? endpoint ?? destination ?? id),
        list,
      );
    }
    t.match(await json(`${V1}/runs?limit=0`), { code: 'invalid_request', message: /limit/ });
    t.match(await json(`${V1}/runs/nowhere`), { code: 'unknown_run' });
    t.match(await json(`${V1}/audiences/nowhere`), { code: 'unknown_audience' });
  });

  await t.test('reports concerns, and accepts the orders that resolve them', async (t) => {
    const kinds = async () => (await json(`${V1}/overview`)).attention.map(({ kind }: { kind: string }) => kind);
    const before = await kinds();
    for (const kind of ['deadLetters', 'runHeld', 'runFailed']) t.ok(before.includes(kind), kind);
    const { endpoint, run, id } = things;
    t.match(await (await post(`${V1}/endpoints/${endpoint}/pause`)).json(), { state: 'paused', since: String });
    t.ok((await kinds()).includes('endpointPaused'));
    t.match(await (await post(`${V1}/endpoints/${endpoint}/resume`)).json(), { state: 'open' });
    t.equal((await post(`${V1}/endpoints/nowhere/resume`)).status, 404);
    t.equal((await post(`${V1}/runs/${run}/approve?wait=true`)).status, 200);
    t.match(await (await post(`${V1}/runs/${run}/reject`)).json(), { code: 'unknown_run' });
    t.match(await (await post(`${V1}/dead-letters/drop`, {})).json(), { code: 'invalid_request' });
    const misspelt = await post(`${V1}/dead-letters/drop`, { destination: 'crm', reson: 'refused' });
    t.match(await misspelt.json(), {
      code: 'invalid_request',
      message: 'body: reson is not known. Did you mean reason?',
    });
    t.match(await (await post(`${V1}/dead-letters/drop`, { ids: [id] })).json(), { dropped: 1, next: null });
    const replayed: Json = await (await post(`${V1}/dead-letters/replay`, { all: true })).json();
    t.ok(replayed.replayed >= 3);
    const refused = await post(`${V1}/destinations/crm/drop`);
    t.match([refused.status, await refused.json()], [400, { code: 'bad_usage', message: /crm/ }]);
    t.match(await (await post(`${V1}/destinations/nowhere/drop`)).json(), { code: 'bad_usage' });
    const tested: Json = await (await post(`${V1}/destinations/crm/test`)).json();
    t.match(tested.data[0], { outcome: 'refused', status: 400, advice: /refuses the event itself/ });
  });

  await t.test('runs a sync, and answers clients that wait with the outcome', async (t) => {
    const sync = (key: string, wait = true) => post(`${V1}/audiences/${key}/sync?wait=${wait}`, {}, SECRETS.operator);
    const done = await sync('regulars');
    t.equal(done.status, 200);
    // Nobody came or went. A letter that was replayed may have died again by now: then the run offers it once more.
    t.match(await done.json(), { runs: [{ key: 'regulars', state: 'done' }], deliveries: { total: Number } });
    const failed = await sync('broken');
    t.equal(failed.status, 500);
    t.match(await failed.json(), { code: 'sql_failed', message: /nothing/ });
    t.equal((await sync('nowhere')).status, 404);
    const turned = await post(`${V1}/audiences/regulars/pause`, {}, SECRETS.operator);
    t.match(await turned.json(), { state: 'paused', paused: { by: 'airflow', since: String }, nextRunAt: null });
    const paused = await sync('regulars');
    t.equal(paused.status, 409);
    t.match(await paused.json(), { code: 'audience_paused' });
    t.match(await json(`${V1}/audiences/regulars/plan`), { paused: { by: 'airflow' } });
    t.match(await (await post(`${V1}/audiences/regulars/resume`)).json(), { state: 'ok', paused: null });
    t.equal((await post(`${V1}/audiences/nowhere/pause`)).status, 404);
    const begun = await sync('regulars', false);
    t.equal(begun.status, 202);
    t.match(await begun.json(), { status: 'ordered' });
    await until(async () => (await json(`${V1}/runs?key=regulars&state=done`)).data.length >= 4);
  });

  await t.test('records who did what, without naming users', async (t) => {
    const filed: Json = await (await post('/regulations', FILING)).json();
    const regulation = `/regulations/${filed.data.regulateId}`;
    await until(async () => (await json(regulation)).data.regulation.overallStatus === 'FINISHED');
    t.match((await json(regulation)).data.regulation, { by: 'admin', notices: [{ destination: 'crm', confirmed: 0 }] });
    t.match((await json(`${V1}/deletions`)).data, [
      { by: 'admin', users: 1, type: 'DELETE_ONLY', notices: [{ destination: 'crm', notices: 1, confirmed: 0 }] },
    ]);
    const all = (await json(`${V1}/audit?limit=500`)).data;
    const of = (action: string) => all.filter((record: { action: string }) => record.action === action);
    t.match(of('audience.sync').at(-2), { who: 'airflow', target: 'regulars', outcome: 'done' });
    t.ok(of('audience.sync').some((record: { outcome: string }) => record.outcome === 'sql_failed'));
    t.match(of('regulation.file'), [{ who: 'admin', target: 'DELETE_ONLY of 1', outcome: 'done' }]);
    t.match(of('dead-letters.replay')[0], { target: 'all' });
    t.notMatch(JSON.stringify(all), /nobody|"u\d"/);
    answers.push(JSON.stringify(all));
  });

  await t.test('answers odd requests without an internal error', (t) => oddRequests(t, { ask, document, things }));

  await t.test('lets one of several simultaneous decisions win', async (t) => {
    await app.sync.run(['guarded'], { now: Date.parse('2000-01-01') });
    await app.sync.run(['guarded']);
    const [{ run }] = (await json(`${V1}/runs?state=held`)).data;
    const verbs = ['approve', 'reject', 'approve', 'reject'];
    const answers = await Promise.all(verbs.map((verb) => post(`${V1}/runs/${run}/${verb}?wait=true`)));
    const won = verbs.filter((_, place) => answers[place]?.status === 200);
    t.equal(won.length, 1, `${answers.map(({ status }) => status)}`);
    t.ok(answers.every(({ status }) => [200, 404, 409].includes(status)));
    t.equal((await json(`${V1}/runs/${run}`)).state, won[0] === 'approve' ? 'done' : 'rejected');
  });

  await t.test('shows no secret in any answer or in the log', async (t) => {
    answers.push(await (await ask('/metrics')).text());
    answers.push(await (await post(`${V1}/audiences/broken/sync?wait=true`)).text());
    for (const [name, secret] of Object.entries(SECRETS)) {
      t.notOk(
        answers.some((answer) => answer.includes(secret)),
        name,
      );
      t.notOk(
        lines.some((line) => line.includes(secret)),
        `${name} in the log`,
      );
    }
    t.ok(app.address);
  });
});

t.test('signs in a browser with a token, and sets a cookie that no script can read', async (t) => {
  const { ask, post, app } = await startService(t);
  const origin = new URL(app.address as string).origin;
  const stranger = await ask(`${V1}/session`, { token: null });
  t.equal(stranger.status, 401);
  t.same(Object.keys((await stranger.json()) as object), ['code', 'message', 'error'], 'neither name nor version');
  t.equal((await post(`${V1}/session`, {}, null)).status, 401);
  t.equal((await post(`${V1}/session`, { token: 'wrong' }, null)).status, 401);
  const signedIn = await post(`${V1}/session`, { token: SECRETS.root }, null);
  const header = signedIn.headers.get('set-cookie') ?? '';
  t.match(header, /^rollcall_session=[\w.-]+; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Strict$/);
  t.notMatch(header, SECRETS.root);
  t.match(await signedIn.json(), { name: 'admin', may: ['read', 'operate', 'delete'] });
  const cookie = header.split(';')[0] as string;
  const status = async (path: string, method: string, headers: object) =>
    (await ask(V1 + path, { method, token: null, headers: { cookie, ...headers } })).status;
  t.equal(await status('/runs', 'GET', {}), 200);
  t.equal(await status('/config/reload', 'POST', { origin }), 200);
  t.equal(await status('/config/reload', 'POST', {}), 403, 'a request that says not whence');
  t.equal(await status('/config/reload', 'POST', { origin: 'https://elsewhere.example' }), 403);
  t.equal(await status('/runs', 'GET', { cookie: `${cookie}x` }), 401);
  const reader = await post(`${V1}/session`, { token: SECRETS.reader }, null);
  const readers = (reader.headers.get('set-cookie') ?? '').split(';')[0] as string;
  t.equal(await status('/config/reload', 'POST', { origin, cookie: readers }), 403);
  t.equal(await status('/session', 'DELETE', { origin: 'https://elsewhere.example' }), 403);
  t.equal(await status('/session', 'DELETE', { origin }), 200);
  t.equal(await status('/runs', 'GET', {}), 401, 'a cookie ends with its session');
  t.equal(await status('/session', 'DELETE', { origin }), 401);
  t.equal(await status('/runs', 'GET', { cookie: readers }), 200, 'other sessions stay');
});

const codeOf = (link: string | null) => /#token=(.+)$/.exec(link ?? '')?.[1] ?? '';

t.test('signs in with the code of a link once, within ten minutes, in any process of the store', async (t) => {
  let ahead = 0;
  const clock = { ...systemClock, now: () => systemClock.now() + ahead };
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-link-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const store = `sqlite:${join(folder, 'shared.db')}`;
  const [one, other] = [await startService(t, { store }, { clock }), await startService(t, { store }, { clock })];
  const signIn = async ({ post }: Service, token: string) => (await post(`${V1}/session`, { token }, null)).status;
  const link = one.app.signInLink();
  t.match(link, new RegExp(`^${one.app.address}/#token=[\\w.-]+$`));
  const both = await Promise.all([signIn(one, codeOf(link)), signIn(other, codeOf(link))]);
  t.same(both.toSorted(), [200, 401], 'two browsers at once');
  t.equal(await signIn(other, codeOf(link)), 401);
  t.equal((await other.ask(`${V1}/runs`, { token: codeOf(one.app.signInLink()) })).status, 401, 'it is no token');
  const [spent, late] = [codeOf(other.app.signInLink()), codeOf(other.app.signInLink())];
  ahead = 10 * 60_000 - 2_000;
  t.equal(await signIn(one, spent), 200);
  ahead = 10 * 60_000;
  for (const code of [spent, late, `${late}x`, late.replace(/^\d+/, '9999999999999')])
    t.equal(await signIn(one, code), 401);
  for (const code of [codeOf(link), spent, late])
    t.notOk([...one.lines, ...other.lines].some((line) => line.includes(code)));
});

t.test('remembers a bounded number of ended sessions, and refuses to end more', async (t) => {
  const { app, ask, post } = await startService(t);
  const origin = new URL(app.address as string).origin;
  const signedIn = await post(`${V1}/session`, { token: SECRETS.root }, null);
  const cookie = (signedIn.headers.get('set-cookie') ?? '').split(';')[0] as string;
  const until = systemClock.now() + 60_000;
  const many = Array.from({ length: 1_000 }, (_, n) => app.store.spendPass(`${n}`, until, systemClock.now()));
  t.ok((await Promise.all(many)).every(Boolean));
  const leave = async () =>
    (await ask(`${V1}/session`, { method: 'DELETE', token: null, headers: { cookie, origin } })).status;
  t.equal(await leave(), 503);
  t.equal(await app.store.spendPass('later', until + 60_000, until + 1), true, 'ended ones make room');
  t.equal(await leave(), 200);
});

t.test('makes guesses of tokens wait', async (t) => {
  const { ask } = await startService(t);
  const status = async (token: string) => (await ask(`${V1}/runs`, { token })).status;
  for (let guess = 0; guess < 10; guess += 1) t.equal(await status(`guess-${guess}`), 401);
  t.equal(await status('guess-11'), 429);
  t.equal(await status(SECRETS.root), 429, 'a right token is not looked at either');
});

t.test('notifies pages of changes, and closes streams when it stops', async (t) => {
  const { app, ask } = await startService(t);
  const stream = await ask(`${V1}/events`);
  t.equal(stream.headers.get('content-type'), 'text/event-stream');
  const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader() as ReadableStreamDefaultReader<string>;
  const next = async (pattern: RegExp) => {
    for (;;) {
      const { value = '', done } = await reader.read();
      if (done || pattern.test(value)) return value;
    }
  };
  t.match(await next(/retry/), /retry: 2000/);
  const heard = next(/"runs"/);
  await until(async () => {
    await app.sync.run(['regulars']);
    return (await Promise.race([heard, new Promise((resolve) => setTimeout(resolve, 200))])) !== undefined;
  });
  t.match(await heard, /^data: \{"topics":\[.*"runs"/);
  await app.close();
  t.equal(await next(/never/), '', 'the stream ends');
});

t.test('answers every step of history, with null for unknown counts', async (t) => {
  const clock = { ...systemClock, now: () => Date.parse('2026-03-04T12:34:56.000Z') };
  const { app, ask, json } = await startService(t, {}, { clock });
  const minute = 60_000;
  const first = Date.parse('2026-03-04T12:30:00.000Z');
  const crm = { subject: 'destination', name: 'crm' } as const;
  await app.store.addHistory(first, [
    { ...crm, counts: { accepted: 5, delivered: 3, retried: 1, dead: 1 }, took: [0, 0, 3, 1], pending: 4, oldest: 900 },
    { subject: 'all', name: '', counts: { delivered: 3 }, pending: 4, oldest: 900 },
    { subject: 'endpoint', name: 'e1', counts: { delivered: 9, retried: 1 }, took: [0, 10] },
    { subject: 'audience', name: 'vips', members: 12, counts: { entered: 12, runs: 1 } },
  ]);
  await app.store.addHistory(first + 2 * minute, [{ subject: 'all', name: '', pending: 0, oldest: 0 }]);
  const at = (n: number) => new Date(first + n * minute).toISOString();
  const range = `step=minute&since=${at(0)}`;
  const { data } = await json(`${V1}/history?of=destination&name=crm&${range}`);
  t.match(data.slice(0, 3), [
    { at: at(0), accepted: 5, delivered: 3, retried: 1, dead: 1, pending: 4, oldestMs: 900, p50Ms: 83, p95Ms: 420 },
    { at: at(1), delivered: null, pending: null },
    { at: at(2), accepted: 0, delivered: 0, dead: 0, pending: 0, p50Ms: null },
  ]);
  t.equal(data.length, 5, 'the step that goes on is the last');
  t.match((await json(`${V1}/history?of=endpoint&name=e1&${range}`)).data[0], { succeeded: 9, retried: 1, p50Ms: 8 });
  const vips = (await json(`${V1}/history?of=audience&name=vips&${range}`)).data;
  t.same(
    vips.map(({ members, entered }: Json) => [members, entered]),
    [
      [12, 12],
      [12, null],
      [12, 0],
      [12, null],
      [12, null],
    ],
    'a size stays until it is another',
  );
  const later = await json(`${V1}/history?of=audience&name=vips&step=hour&since=2026-03-04T11:00:00Z`);
  t.same(
    later.data.map(({ members }: Json) => members),
    [null, 12],
  );
  t.match(await json(`${V1}/history`), { step: 'minute', data: { length: 360 } });
  t.match(await json(`${V1}/history?step=hour`), { data: { length: 168 } });
  t.match(await json(`${V1}/history?step=day`), { data: { length: 400 } });
  t.equal((await ask(`${V1}/history?step=minute&since=2026-03-03`)).status, 200);
  t.same((await json(`${V1}/history?since=2030-01-01`)).data, []);
  t.match(await json(`${V1}/history/sums?of=endpoint`), {
    data: [{ name: 'e1', succeeded: 9, retried: 1, refused: 0 }],
  });
  t.match(await json(`${V1}/history/sums?step=minute&since=2026-01-01`), {
    code: 'invalid_request',
    message: /60 steps/,
  });
  const [one] = (await json(`${V1}/history/sums?limit=1`)).data;
  t.match(one, { name: 'crm', delivered: 3, p99Ms: 484 });
});

t.test('keeps the history of a service after it has stopped', async (t) => {
  const { app, ask } = await startService(t);
  const { store } = app;
  const written = new Map<string, Record<string, number>>();
  const addHistory = store.addHistory.bind(store);
  store.addHistory = (at, entries) => {
    // A minute may end meanwhile: then there are two entries of each.
    for (const { subject, name, counts = {} } of entries) {
      const sums = written.get(`${subject} ${name}`) ?? {};
      for (const [what, count] of Object.entries(counts)) sums[what] = (sums[what] ?? 0) + count;
      written.set(`${subject} ${name}`, sums);
    }
    return addHistory(at, entries);
  };
  const body = JSON.stringify({ userId: 'u1', event: 'Seen' });
  const headers = { 'content-type': 'application/json', authorization: `Basic ${btoa(`${SECRETS.writeKey}:`)}` };
  await ask('/v1/track', { method: 'POST', headers, body, token: null });
  await ask('/v1/track', { method: 'POST', headers, body: '{}', token: null });
  await app.sync.run(['regulars'], {});
  await until(async () =>
    (await app.store.backlog()).some(({ destination, dead }) => destination === 'crm' && dead === 4),
  );
  await app.close();
  t.match(Object.fromEntries(written), {
    'all ': { accepted: 4, dead: 4, delivered: 0 },
    'destination crm': { accepted: 4, dead: 4 },
    'source shop': { accepted: 4, discarded: 1 },
    'audience regulars': { runs: 1, entered: 3 },
  });
});

t.test('searches, shows and resends messages', async (t) => {
  const requests: { key: string; body: Json }[] = [];
  const receiver = createServer((request, response) => {
    let text = '';
    request.on('data', (part) => (text += part));
    request.on('end', () => {
      requests.push({ key: String(request.headers['idempotency-key']), body: JSON.parse(text) });
      response.end();
    });
  });
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
  t.teardown(() => receiver.close());
  const { port } = receiver.address() as AddressInfo;
  const webhookUrl = `http://127.0.0.1:${port}`;
  const { app, ask, json, post } = await startService(t, {
    messages: { keep: '1d' },
    network: { allow: ['127.0.0.0/8'] },
    destinations: [
      { name: 'crm', sources: ['shop'], webhookUrl },
      { name: 'off', sources: ['shop'], webhookUrl: 'http://127.0.0.1:9' },
    ],
  });
  const headers = { 'content-type': 'application/json', authorization: `Basic ${btoa(`${SECRETS.writeKey}:`)}` };
  const track = (messageId: string, event: string) =>
    ask('/v1/track', {
      method: 'POST',
      headers,
      token: null,
      body: JSON.stringify({ messageId, event, userId: 'u1' }),
    });
  await track('m1', 'Seen');
  await track('m2', 'Left');
  const delivered = async (count: number) => (await json(`${V1}/messages?state=delivered`)).data.length === count;
  await until(() => delivered(2));
  const all = await json(`${V1}/messages?userId=u1`);
  t.same(
    all.data.map(({ messageId, destination, state }: Json) => [messageId, destination, state]),
    [
      ...[
        ['m2', 'off', 'waiting'],
        ['m1', 'off', 'waiting'],
      ],
      ...[
        ['m2', 'crm', 'delivered'],
        ['m1', 'crm', 'delivered'],
      ],
    ],
  );
  const [seen] = (await json(`${V1}/messages?event=Seen&state=delivered`)).data;
  t.match(seen, { messageId: 'm1', event: 'Seen', kept: true, source: 'shop', type: 'track' });
  t.match(await json(`${V1}/messages?limit=1`), { data: { length: 1 }, next: String });
  const one = await json(`${V1}/messages/${seen.id}`);
  t.match(one, {
    body: { event: 'Seen', userId: 'u1' },
    attempts: [{ delivery: seen.id, outcome: 'success', status: 200 }],
  });

  t.match(await (await post(`${V1}/messages/resend`, { ids: [seen.id] })).json(), { resent: 1, superseded: 0 });
  await until(() => delivered(3));
  t.same(
    requests.map(({ body }) => body.messageId),
    ['m1', 'm2', 'm1'],
  );
  t.equal(new Set(requests.map(({ key }) => key)).size, 3, 'the receiver handles it once more');
  const refused = async (id: string) => (await post(`${V1}/messages/resend`, { ids: [seen.id, id] })).json();
  t.match(await refused('nothing'), { code: 'not_found', message: /messages\.keep/ });
  t.match(await refused(all.data[0].id), { code: 'invalid_request', message: /still on its way to off/ });
  t.equal((await json(`${V1}/messages?state=delivered`)).data.length, 3, 'all of them or none');
  await app.regulations.file({ type: 'DELETE_ONLY', sources: null, userIds: ['u1'] });
  // It goes in steps. The notice itself has the id until `off` has taken it, which it never does.
  await until(async () => (await json(`${V1}/messages?userId=u1`)).data.every(({ type }: Json) => type === 'delete'));
  t.equal((await ask(`${V1}/messages/${seen.id}`)).status, 404);
});
