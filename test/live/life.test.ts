import { isDeepStrictEqual } from 'node:util';
import t from 'tap';
import type { App } from '../../src/app.ts';
import { type LoggingService, loggingService, send } from '../events/helpers/logging-app.ts';
import { startReceiver } from './helpers/receiver.ts';
import { caughtUp, computed, delivered, membersOf } from './helpers/service.ts';

t.setTimeout(590_000);
const HOUR = 3_600_000;

t.test('syncs, holds, edits and retires live audiences like others', async (t) => {
  const service = loggingService(t);
  const receiver = await startReceiver(t);
  const second = await startReceiver(t);
  const crm = { name: 'crm', sources: ['personas'], webhookUrl: receiver.url };
  const other = { name: 'other', sources: ['personas'], webhookUrl: second.url };
  const open = (audience: object, destinations: readonly object[] = [crm]) => opened(service, audience, destinations);
  const buyers = { when: { performed: 'Order', within: '2 days' }, guard: { maxExits: 2, minMembers: 3 } };
  let app = await open(buyers);
  await settled(app);

  await t.test('adds a member on an event and notifies receivers, also after a manual sync', async (t) => {
    t.match(await app.sync.run(['buyers']), [{ error: null }]);
    await send(app, ['a', 'b', 'c', 'd'].map(order));
    await settled(app);
    t.strictSame(receiver.state('buyers'), { a: true, b: true, c: true, d: true });
    const story = await app.sync.why('buyers', 'a');
    t.match(story.changes, [{ change: 'entered', cause: { event: { type: 'track', event: 'Order' } } }]);
    t.match(story.changes[0]?.told, [{ destination: 'crm', attempt: { outcome: 'success' } }]);
  });

  await t.test('a deletion triggers a rebuild, even without new events', async (t) => {
    const id = await app.regulations.file({ type: 'DELETE_ONLY', sources: ['personas'], userIds: ['nobody'] });
    while ((await app.regulations.find(id))?.status !== 'FINISHED') await new Promise((done) => setTimeout(done, 30));
    await settled(app);
    t.strictSame(receiver.state('buyers'), { a: true, b: true, c: true, d: true });
  });

  await t.test('freezes it by a guard, and sends the difference on approval', async (t) => {
    service.advance(50 * HOUR);
    await send(app, ['e'].map(order));
    const run = await held(app);
    t.match(run.reason, /maxExits|becomes empty/);
    await computed(app);
    t.same(Object.keys(receiver.state('buyers')), ['a', 'b', 'c', 'd'], 'nobody hears of it');
    t.match(await app.sync.plan(['buyers']), [{ exited: 4, entered: 1 }], 'it is computed all the same');
    const { error } = await app.sync.approve(run.id);
    t.equal(error, null);
    await settled(app);
    t.strictSame(receiver.state('buyers'), { e: true });
    const lastOf = async (user: string) => (await app.sync.why('buyers', user)).changes.at(-1);
    t.match(await lastOf('e'), { change: 'entered', run: { id: run.id }, cause: { event: { event: 'Order' } } });
    t.match(await lastOf('a'), { change: 'left', run: { id: run.id }, cause: { event: null, time: String } });
  });

  await t.test('stays frozen after a rejection, and can be approved after a manual sync', async (t) => {
    await send(app, ['f', 'g', 'h'].map(order));
    await settled(app);
    service.advance(50 * HOUR);
    await send(app, ['i'].map(order));
    await app.sync.reject((await held(app)).id);
    await send(app, ['j'].map(order));
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    t.same(Object.keys(receiver.state('buyers')), ['e', 'f', 'g', 'h'], 'still nobody hears of anything');
    t.match(await app.sync.run(['buyers']), [{ runs: [{ state: 'held' }] }]);
    await app.sync.approve((await held(app)).id);
    await settled(app);
    t.strictSame(receiver.state('buyers'), { i: true, j: true });
  });

  await t.test('computes an edited definition over the log, and continues without a gap', async (t) => {
    await app.close();
    app = await open({ when: { performed: 'Order', atLeast: 2 } });
    await send(app, [order('j')]);
    // The run of the edit begins a moment after events have been read.
    while (!isDeepStrictEqual(receiver.state('buyers'), { j: true })) await settled(app);
    await send(app, [order('a'), order('b')]);
    await settled(app);
    t.strictSame(receiver.state('buyers'), { a: true, b: true, j: true });
  });

  await t.test('sends the membership to a later destination, and the end to all', async (t) => {
    await app.close();
    app = await open({ when: { performed: 'Order', atLeast: 2 } }, [crm, other]);
    await settled(app);
    const [report] = await app.sync.run(['buyers']);
    t.equal(report?.error, null);
    await settled(app);
    t.strictSame(second.state('buyers'), { a: true, b: true, j: true });
    t.equal((await app.sync.resync('buyers')).error, null);
    await app.store.pauseAudience({ key: 'buyers', at: service.clock.now(), by: 'a test' });
    t.equal((await app.sync.retire('buyers')).error, null);
    await delivered(app);
    t.strictSame(receiver.state('buyers'), {});
    t.strictSame(second.state('buyers'), {});
  });

  await t.test('begins again once a retired one is resumed, without a restart', async (t) => {
    await app.store.resumeAudience('buyers');
    await send(app, [order('c'), order('c')]);
    const all = { a: true, b: true, c: true, j: true };
    while (!isDeepStrictEqual(receiver.state('buyers'), all)) await settled(app);
    t.strictSame(second.state('buyers'), all);
    await send(app, [order('d'), order('d')]);
    await settled(app);
    t.strictSame(receiver.state('buyers'), { ...all, d: true });
  });
});

let sent = 0;
function order(userId: string): object {
  sent += 1;
  return { type: 'track', event: 'Order', userId, messageId: `order-${sent}` };
}

async function opened(service: LoggingService, audience: object, destinations: readonly object[]): Promise<App> {
  const common = { name: 'Buyers', key: 'buyers', source: 'personas', live: true };
  const network = { allow: ['127.0.0.0/8'] };
  const app = await service.open([], { network, destinations, audiences: [{ ...common, ...audience }] });
  await app.start({ collect: true, schedules: true });
  return app;
}

async function settled(app: App): Promise<void> {
  await caughtUp(app);
  await membersOf(app, 'buyers');
  await delivered(app);
}

async function held(app: App) {
  for (;;) {
    const [run] = await app.store.runs({ key: 'buyers', states: ['held'], limit: 1 });
    if (run) return run;
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
}
