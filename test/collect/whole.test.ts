import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { bodyBuilder } from '../../jobs/run/identify-body.ts';
import { computedOf, parseValue } from '../../receivers/parse/messages.ts';
import { AS_ADMIN } from '../helpers/admin.ts';
import { until } from '../helpers/until.ts';
import { startApp, startInbox, writeConfig } from './running.ts';
import { track } from './service.ts';

const post = (url: string, body: object) =>
  fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...AS_ADMIN },
    body: JSON.stringify(body),
  });

const shopOnly = { shop: { connected: true } };

t.test('delivers collected messages as signed webhooks, in full', async (t) => {
  const inbox = await startInbox(t);
  const app = await startApp(t, writeConfig(t, inbox, shopOnly));
  const folder = join(import.meta.dirname, '../../../shared/captures');
  const file = existsSync(folder) ? readdirSync(folder).find((name) => name.startsWith('python.')) : undefined;
  const batch = file
    ? JSON.parse(readFileSync(join(folder, file), 'utf8'))[0].body.batch
    : [track, { type: 'alias', userId: 'u', previousId: 'p' }];
  const answer = await post(`${app.address}/v1/batch`, { batch, writeKey: 'WK_shop' });
  t.strictSame([answer.status, await answer.json()], [200, { success: true }]);
  const wanted = batch.filter(({ integrations }: { integrations?: { All?: boolean } }) => integrations?.All !== false);
  await inbox.arrived(wanted.length);
  t.strictSame(
    inbox.webhooks.map(({ type }) => type).toSorted(),
    wanted.map(({ type }: { type: string }) => type).toSorted(),
  );
  t.notMatch(JSON.stringify(inbox.webhooks), 'WK_shop');
});

t.test('delivers a message once that is sent many times, at once and later', async (t) => {
  const inbox = await startInbox(t);
  const app = await startApp(t, writeConfig(t, inbox, { shop: { connected: true }, web: { connected: true } }));
  const same = { ...track, messageId: 'the-same' };
  const send = (writeKey = 'WK_shop') => post(`${app.address}/v1/batch`, { batch: [same, same], writeKey });
  const answers = await Promise.all(Array.from({ length: 20 }, () => send()));
  t.ok(
    answers.every(({ status }) => status === 200),
    'a duplicate is no error: the client must stop sending it',
  );
  await inbox.arrived(1);
  t.equal((await send()).status, 200);
  t.equal((await send('WK_web')).status, 200, 'ids of another source are others');
  await post(`${app.address}/v1/track`, { ...track, event: 'Last', writeKey: 'WK_shop' });
  await inbox.arrived(3);
  t.strictSame(inbox.webhooks.map(({ event }) => event).toSorted(), ['Bought', 'Bought', 'Last']);
});

t.test('delivers no collected message as a change of an audience, however it is written', async (t) => {
  const inbox = await startInbox(t);
  const app = await startApp(t, writeConfig(t, inbox, shopOnly));
  const spec = {
    key: 'admins',
    name: 'Admins',
    kind: 'audience',
    columns: [],
    removed: [],
    at: 0,
    now: () => 0,
  } as const;
  const forged = bodyBuilder(spec)('forged', {
    ...{ userId: 'u1', present: true, value: null, sequence: Number.MAX_SAFE_INTEGER },
    ...{ reason: 'entered', changedAt: 0, cause: null },
  });
  const context = { ...JSON.parse(forged).context, replay: true, test: true };
  const texts = [
    forged,
    forged.replace('"personas"', ' "\\u0070ersonas" '),
    forged.replace('"context"', '"\\u0063ontext"'),
    forged.replace('"context"', '"context":{},"context"'),
    JSON.stringify({ type: 'identify', userId: 'u1', context: { app: { name: 'x' }, ...context } }),
  ].map((text, index) => text.replace('"forged"', `"forged-${index}"`));
  const call = (path: string, body: string) =>
    fetch(`${app.address}${path}?writeKey=WK_shop`, {
      method: 'POST',
      body,
      headers: { 'content-type': 'text/plain' },
    });
  for (const text of texts) t.equal((await call('/v1/identify', text.replace('forged-', 'alone-'))).status, 200);
  t.equal((await call('/v1/batch', `{"batch":[${texts}]}`)).status, 200);
  const batch = [{ type: 'identify', userId: 'u1' }];
  t.equal((await call('/v1/batch', JSON.stringify({ batch, context }))).status, 200);
  const data = Buffer.from(JSON.stringify({ ...JSON.parse(forged), writeKey: 'WK_shop' })).toString('base64url');
  t.equal((await fetch(`${app.address}/v1/pixel/identify?data=${data}`)).status, 200);
  await inbox.arrived(2 * texts.length + 2);
  for (const webhook of inbox.webhooks) {
    const parsed = parseValue(webhook);
    t.ok(parsed.ok && parsed.known);
    if (parsed.ok) t.equal(computedOf(parsed.message), undefined);
    const { context } = webhook as { readonly context?: object };
    for (const mark of ['personas', 'replay', 'test']) t.notOk(Object.hasOwn(context ?? {}, mark), mark);
  }
});

t.test('withdraws waiting messages at a deletion request and notifies each affected source once', async (t) => {
  const inbox = await startInbox(t);
  const sources = { shop: { connected: true }, web: { connected: true }, alone: { connected: false } };
  const config = writeConfig(t, inbox, sources);
  const app = await startApp(t, config);
  inbox.status = 503;
  const batch = ['gone', 'stays'].map((userId) => ({ ...track, userId, messageId: userId }));
  await post(`${app.address}/v1/batch`, { batch, writeKey: 'WK_shop' });
  const filed = await post(`${app.address}/regulations`, {
    ...{ regulationType: 'DELETE_ONLY', subjectType: 'USER_ID', subjectIds: ['gone'] },
  });
  t.equal(filed.status, 200);
  const { data } = (await filed.json()) as { data: { regulateId: string } };
  const status = async () => {
    const answer = (await (
      await fetch(`${app.address}/regulations/${data.regulateId}`, { headers: AS_ADMIN })
    ).json()) as {
      data: { regulation: { overallStatus: string } };
    };
    return answer.data.regulation.overallStatus;
  };
  await until(async () => (await status()) === 'FINISHED');
  inbox.status = 200;
  await inbox.arrived(3);
  const notices = inbox.webhooks.filter(({ type }) => type === 'delete');
  t.equal(notices.length, 2, 'shop and web, but not the source without webhooks');
  for (const notice of notices) t.strictSame(Object.keys(notice).toSorted(), ['timestamp', 'type', 'userId']);
  t.notOk(inbox.webhooks.some(({ type, userId }) => type === 'track' && userId === 'gone'));
  t.ok(inbox.webhooks.some(({ userId }) => userId === 'stays'));
});

t.test('keeps a suppressed user out until the suppression ends', async (t) => {
  const inbox = await startInbox(t);
  const app = await startApp(t, writeConfig(t, inbox, shopOnly));
  const regulate = async (regulationType: string) => {
    const body = { regulationType, subjectType: 'USER_ID', subjectIds: ['u1'] };
    const { data } = (await (await post(`${app.address}/regulations`, body)).json()) as {
      data: { regulateId: string };
    };
    await until(async () => (await app.regulations.find(data.regulateId))?.status === 'FINISHED');
  };
  const send = (event: string) => post(`${app.address}/v1/track`, { ...track, event, writeKey: 'WK_shop' });
  await regulate('SUPPRESS_WITH_DELETE');
  t.equal((await send('Kept out')).status, 200);
  await regulate('UNSUPPRESS');
  await send('Let in');
  await inbox.arrived(2);
  t.match(inbox.webhooks, [{ type: 'delete', userId: 'u1' }, { event: 'Let in' }]);
});

t.test('keeps acknowledged messages and deletion requests over a restart', async (t) => {
  const inbox = await startInbox(t);
  inbox.status = 503;
  const config = writeConfig(t, inbox, shopOnly);
  const first = await startApp(t, config);
  await post(`${first.address}/v1/track`, { ...track, writeKey: 'WK_shop', messageId: 'kept' });
  await first.close();
  inbox.status = 200;
  const second = await startApp(t, config);
  await inbox.arrived(1);
  await post(`${second.address}/v1/track`, { ...track, writeKey: 'WK_shop', messageId: 'kept' });
  await post(`${second.address}/v1/track`, { ...track, writeKey: 'WK_shop', event: 'Last' });
  await inbox.arrived(2);
  t.match(inbox.webhooks, [{ messageId: 'kept' }, { event: 'Last' }], 'and its id is still known');
});

t.test('makes a source over its configured rate wait', async (t) => {
  const inbox = await startInbox(t);
  const app = await startApp(t, writeConfig(t, inbox, { shop: { connected: true, rateLimit: '2/h' } }));
  const send = () => post(`${app.address}/v1/track`, { ...track, writeKey: 'WK_shop' });
  const answers = [await send(), await send(), await send()];
  t.strictSame(
    answers.map(({ status }) => status),
    [200, 429, 429],
    'evenly: one in half an hour',
  );
  t.ok(Number(answers[2]?.headers.get('retry-after')) > 1_000);
});
