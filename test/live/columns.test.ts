import { createHash } from 'node:crypto';
import t from 'tap';
import type { App } from '../../src/app.ts';
import { type LoggingService, loggingService, send } from '../events/helpers/logging-app.ts';
import { startReceiver } from './helpers/receiver.ts';
import { caughtUp, computed, delivered } from './helpers/service.ts';

t.setTimeout(590_000);

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');
let sent = 0;
const message = (type: string, userId: string, more: object) => {
  sent += 1;
  return { type, userId, messageId: `m${sent}`, ...more };
};
const order = (userId: string) => message('track', userId, { event: 'Order' });
const identify = (userId: string, traits: object) => message('identify', userId, { traits });
const BUYERS = {
  ...{ name: 'Buyers', key: 'buyers', source: 'personas', live: true, guard: { allowEmpty: true } },
  when: { performed: 'Order', within: '2 days' },
  with: { email: { trait: 'email' }, plan: { trait: 'tier' } },
};
const ANY = { ...BUYERS, name: 'Any', key: 'any', sends: 'any' };

async function opened(service: LoggingService, destinations: readonly object[], audiences: readonly object[]) {
  const app = await service.open([], { network: { allow: ['127.0.0.0/8'] }, destinations, audiences });
  await app.start({ collect: true, schedules: true });
  return app;
}

async function settled(app: App): Promise<void> {
  await caughtUp(app);
  await delivered(app);
}

/** A receiver, and a function for the traits that it got of an audience since the last call. */
async function listener(test: Parameters<typeof startReceiver>[0]) {
  const receiver = await startReceiver(test);
  let place = 0;
  const news = () => {
    const heard = receiver.heard.slice(place);
    place = receiver.heard.length;
    return heard.map(({ userId, reason, traits }) => `${userId} ${reason} ${JSON.stringify(traits)}`).toSorted();
  };
  return { receiver, news };
}

const columnsOf = async (app: App, key: string) => {
  const found: Record<string, unknown> = {};
  await app.sync.members(key, async ({ userIds, values }) => {
    for (const [index, user] of userIds.entries()) found[user] = JSON.parse(values[index] ?? 'null');
  });
  return found;
};

t.test('sends traits of the person with each change of a live audience', async (t) => {
  const service = loggingService(t);
  const [plain, hashed] = [await listener(t), await listener(t)];
  const crm = { name: 'crm', sources: ['personas'], webhookUrl: plain.receiver.url };
  const ads = {
    ...{ name: 'ads', sources: ['personas'], webhookUrl: hashed.receiver.url },
    columns: { email: 'sha256' },
  };
  let app = await opened(service, [crm, ads], [BUYERS, ANY]);

  await t.test('as they are when somebody enters, hashed for whom asks for it', async (t) => {
    await settled(app);
    await send(app, [identify('ann', { email: ' Ann@X.org', tier: 'pro', other: 1 }), order('ann'), order('bob')]);
    await settled(app);
    t.same(plain.news(), [
      'ann entered {"any":true,"email":" Ann@X.org","plan":"pro"}',
      'ann entered {"buyers":true,"email":" Ann@X.org","plan":"pro"}',
      'bob entered {"any":true}',
      'bob entered {"buyers":true}',
    ]);
    t.same(hashed.news().slice(0, 2), [
      `ann entered {"any":true,"email":"${sha256('ann@x.org')}"}`,
      `ann entered {"buyers":true,"email":"${sha256('ann@x.org')}"}`,
    ]);
    const enterings = plain.receiver.heard.filter(({ userId }) => userId === 'ann');
    const cause = { messageId: `m${sent - 1}` };
    for (const each of enterings) t.match(each, { cause }, 'the order made her enter, not the identify');
  });

  await t.test('a change of columns alone only where it is asked for, with its cause', async (t) => {
    const said = identify('ann', { email: 'ann@y.org' });
    await send(app, [said, identify('bob', { tier: null }), identify('nobody', { email: 'n@x.org' })]);
    await settled(app);
    t.same(plain.news(), ['ann changed {"any":true,"email":"ann@y.org","plan":"pro"}']);
    t.match(plain.receiver.heard.at(-1), { cause: { messageId: said.messageId } });
    t.same(hashed.news(), [`ann changed {"any":true,"email":"${sha256('ann@y.org')}"}`]);
    const columns = { ann: { email: 'ann@y.org', plan: 'pro' }, bob: null };
    t.same([await columnsOf(app, 'buyers'), await columnsOf(app, 'any')], [columns, columns], 'members show them');
    t.match((await app.sync.why('any', 'ann')).changes, [
      { reason: 'entered', value: '{"email":" Ann@X.org","plan":"pro"}' },
      {
        reason: 'changed',
        value: '{"email":"ann@y.org","plan":"pro"}',
        cause: { event: { messageId: said.messageId } },
      },
    ]);
    t.match((await app.sync.why('buyers', 'ann')).changes, [{ reason: 'entered' }]);
  });

  await t.test('the same after state is lost and built again, and a restart', async (t) => {
    await app.store.live.rebuildAll();
    await settled(app);
    await app.close();
    app = await opened(service, [crm, ads], [BUYERS, ANY]);
    await settled(app);
    t.same([plain.news(), hashed.news()], [[], []]);
    await send(app, [identify('bob', { email: 'bob@x.org' })]);
    await settled(app);
    t.same(plain.news(), ['bob changed {"any":true,"email":"bob@x.org"}']);
  });

  await t.test('a change that state built again finds', async (t) => {
    await app.close();
    const off = { ...ads, enabled: false };
    app = await opened(service, [crm, off], [BUYERS, ANY]);
    await settled(app);
    hashed.news();
    await app.store.pauseAudience({ key: 'any', at: service.clock.now(), by: 'a test' });
    await app.store.pauseAudience({ key: 'buyers', at: service.clock.now(), by: 'a test' });
    await send(app, [identify('bob', { email: 'bob@y.org' }), order('cid')]);
    await computed(app);
    await app.store.live.rebuildAll();
    await computed(app);
    for (const key of ['any', 'buyers']) await app.store.resumeAudience(key);
    await settled(app);
    const heard = plain.news();
    t.match(heard, [/^bob (changed|resync) \{"any":true,"email":"bob@y.org"\}$/, /^cid/, /^cid/]);
    t.equal(heard.length, 3);
  });

  await t.test('the difference for a destination that was away', async (t) => {
    await app.close();
    app = await opened(service, [crm, ads], [BUYERS, ANY]);
    for (const key of ['any', 'buyers']) t.equal((await app.sync.run([key]))[0]?.error, null);
    await settled(app);
    t.same(hashed.news(), [
      `bob returning {"any":true,"email":"${sha256('bob@y.org')}"}`,
      'cid returning {"any":true}',
      'cid returning {"buyers":true}',
    ]);
  });

  await t.test('the last known ones when somebody leaves', async (t) => {
    plain.news();
    service.advance(50 * 3_600_000);
    await settled(app);
    t.same(plain.news(), [
      'ann exited {"any":false,"email":"ann@y.org","plan":"pro"}',
      'ann exited {"buyers":false,"email":"ann@y.org","plan":"pro"}',
      'bob exited {"any":false,"email":"bob@y.org"}',
      'bob exited {"buyers":false,"email":"bob@y.org"}',
      'cid exited {"any":false}',
      'cid exited {"buyers":false}',
    ]);
    await send(app, [order('ann'), order('bob')]);
    await settled(app);
    plain.news();
  });

  await t.test('nothing of a deleted user', async (t) => {
    const id = await app.regulations.file({ type: 'DELETE_ONLY', sources: null, userIds: ['ann'] });
    while ((await app.regulations.find(id))?.status !== 'FINISHED') await computed(app);
    t.same(await columnsOf(app, 'any'), { bob: { email: 'bob@y.org' } });
  });
});

t.test('adds and removes columns of a live audience', async (t) => {
  const service = loggingService(t);
  const { receiver, news } = await listener(t);
  const crm = { name: 'crm', sources: ['personas'], webhookUrl: receiver.url };
  const [buyers, any] = [BUYERS, ANY].map(({ with: _, ...rest }) => ({ ...rest, sends: undefined }));
  let app = await opened(service, [crm], [buyers, any] as object[]);
  await send(app, [identify('ann', { email: 'a@x.org' }), order('ann')]);
  await settled(app);
  t.same(news(), ['ann first_sync {"any":true}', 'ann first_sync {"buyers":true}']);
  await app.close();
  app = await opened(service, [crm], [BUYERS, ANY]);
  while ((await columnsOf(app, 'any'))['ann'] === null) await settled(app);
  await settled(app);
  t.same(await columnsOf(app, 'buyers'), { ann: { email: 'a@x.org' } });
  t.same(news(), ['ann changed {"any":true,"email":"a@x.org"}'], 'added ones are sent once');
  await send(app, [identify('ann', { email: 'b@x.org' })]);
  await settled(app);
  t.same(news(), ['ann changed {"any":true,"email":"b@x.org"}']);
  await app.close();
  app = await opened(service, [crm], [buyers, any] as object[]);
  while ((await columnsOf(app, 'any'))['ann'] !== null) await settled(app);
  t.same(await columnsOf(app, 'buyers'), { ann: null });
  t.same(news(), []);
});

t.test('guards changes of columns', async (t) => {
  const service = loggingService(t);
  const { receiver, news } = await listener(t);
  const crm = { name: 'crm', sources: ['personas'], webhookUrl: receiver.url };
  const guard = { maxChanges: 1, minMembers: 0 };
  const app = await opened(service, [crm], [{ ...ANY, guard }]);
  await settled(app);
  await send(app, [order('ann'), order('bob'), order('cid')]);
  await settled(app);
  news();
  await send(app, [identify('ann', { email: 'c@x.org' }), identify('bob', { email: 'c@x.org' })]);
  await computed(app);
  t.match((await app.sync.audiences())[0]?.live?.hold, /2 of 3 users change within an hour, more than maxChanges/);
  t.same(news(), []);
});

t.test('has the same columns by schedule, from a configuration file', async (t) => {
  const service = loggingService(t);
  const { receiver, news } = await listener(t);
  const crm = {
    name: 'crm',
    sources: ['personas'],
    webhookUrl: receiver.url,
    columns: { email: 'sha256', plan: 'plain' },
  };
  const app = await opened(service, [crm], [ANY, { ...ANY, name: 'Daily', key: 'daily', live: false }]);
  await settled(app);
  const daily = async () => {
    const [report] = await app.sync.run(['daily']);
    t.equal(report?.error, null);
    await settled(app);
    return news();
  };
  await send(app, [identify('ann', { email: 'Ann@x.org', tier: { a: [2], b: 1 } }), order('ann'), order('bob')]);
  const columns = `"email":"${sha256('ann@x.org')}","plan":{"a":[2],"b":1}`;
  t.same(await daily(), [
    `ann entered {"any":true,${columns}}`,
    `ann first_sync {"daily":true,${columns}}`,
    'bob entered {"any":true}',
    'bob first_sync {"daily":true}',
  ]);
  await send(app, [identify('ann', { tier: { b: 1, a: [2] } }), identify('bob', { tier: true })]);
  t.same(await daily(), ['bob changed {"any":true,"plan":true}', 'bob changed {"daily":true,"plan":true}']);
  service.advance(50 * 3_600_000);
  t.same(await daily(), [
    `ann exited {"any":false,${columns}}`,
    `ann exited {"daily":false,${columns}}`,
    'bob exited {"any":false,"plan":true}',
    'bob exited {"daily":false,"plan":true}',
  ]);
});
