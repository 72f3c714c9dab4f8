import t from 'tap';
import type { App } from '../../src/app.ts';
import { type LoggingService, loggingService, send } from '../events/helpers/logging-app.ts';
import { startReceiver } from './helpers/receiver.ts';
import { caughtUp, delivered, membersOf } from './helpers/service.ts';

t.setTimeout(590_000);
const HOUR = 3_600_000;

const BUYERS = { key: 'buyers', when: { performed: 'Order', within: '2 days' } };
const VIEWERS = { key: 'viewers', when: { performed: 'View' } };
const EITHER = { key: 'viewers', when: { any: [{ performed: 'View' }, { performed: 'Order', within: '2 days' }] } };
const BOTH = { key: 'viewers', when: { all: [{ performed: 'View' }, { performed: 'Order', within: '2 days' }] } };
const ORDERS = { key: 'orders', value: { sum: 'Order', of: 'properties.total' } };

t.test('updates other live audiences while building a new one, which goes live without a gap', async (t) => {
  const service = loggingService(t);
  const receiver = await startReceiver(t);
  const heard = async (key: string, users: readonly string[]) => {
    const wanted = users.toSorted().join();
    while (Object.keys(receiver.state(key)).join() !== wanted) await pause(20);
  };
  let app = await opened(service, receiver.url, [BUYERS]);
  await app.start({ collect: true, schedules: true });
  await send(app, [did('Order', 'ann'), did('Order', 'bob'), did('View', 'ann'), did('View', 'vic')]);
  await heard('buyers', ['ann', 'bob']);
  await app.close();

  await t.test('adds, expires and deletes members during a build', async (t) => {
    app = await opened(service, receiver.url, [BUYERS, VIEWERS], [ORDERS]);
    const build = holdUp(app, 'fillState');
    await app.start({ collect: true, schedules: true });
    await build.reached;
    service.advance(40 * HOUR);
    await send(app, [did('Order', 'cleo'), did('View', 'cleo'), did('View', 'dan')]);
    await heard('buyers', ['ann', 'bob', 'cleo']);
    service.advance(10 * HOUR);
    await heard('buyers', ['cleo']);
    t.match(await standings(app), {
      buyers: { lag: Number, progress: null, hold: null },
      viewers: { lag: null, progress: Number, hold: 'new' },
    });
    const id = await app.regulations.file({ type: 'DELETE_ONLY', sources: null, userIds: ['vic'] });
    while ((await app.regulations.find(id))?.status !== 'FINISHED') await pause(30);
    await send(app, [did('Order', 'eve')]);
    await heard('buyers', ['cleo', 'eve']);
    t.same(receiver.state('viewers'), {}, 'nothing is sent of what is not computed');
    build.goOn();
    await caughtUp(app);
    await delivered(app);
    t.strictSame(receiver.state('viewers'), { ann: true, cleo: true, dan: true });
    t.strictSame(receiver.state('orders'), { ann: 1, bob: 1, cleo: 1, eve: 1 });
    t.strictSame(receiver.state('buyers'), { cleo: true, eve: true });
    const { changes } = await app.sync.why('buyers', 'eve');
    t.match(changes, [{ change: 'entered', cause: { event: { type: 'track', event: 'Order' } } }]);
    await send(app, [did('View', 'eve'), did('Order', 'eve')]);
    await heard('viewers', ['ann', 'cleo', 'dan', 'eve']);
    await caughtUp(app);
    await delivered(app);
    t.match(receiver.state('orders'), { eve: 2 }, 'no event counts twice');
    t.equal(await stateCount(app), 1, 'the former state is removed');
  });

  await t.test(
    'keeps every audience live during a deletion for some sources, and drops what was done there',
    async (t) => {
      const build = holdUp(app, 'fillState');
      const id = await app.regulations.file({ type: 'DELETE_ONLY', sources: ['shop'], userIds: ['dan'] });
      while ((await app.regulations.find(id))?.status !== 'FINISHED') await pause(30);
      await build.reached;
      await send(app, [did('Order', 'eve')]);
      while (receiver.state('orders')['eve'] !== 3) await pause(20);
      t.match(await standings(app), { viewers: { lag: Number, progress: Number, hold: null } });
      t.ok('dan' in receiver.state('viewers'));
      build.goOn();
      await heard('viewers', ['ann', 'cleo', 'eve']);
      await caughtUp(app);
      t.strictSame(receiver.state('orders'), { ann: 1, bob: 1, cleo: 1, eve: 3 });
      t.equal(await stateCount(app), 1);
    },
  );

  await t.test(
    'updates other audiences while checking everybody for an edited definition that needs no more data',
    async (t) => {
      await app.close();
      app = await opened(service, receiver.url, [BUYERS, EITHER]);
      const sweep = holdUp(app, 'personsAfter', true);
      await app.start({ collect: true, schedules: true });
      await send(app, [did('Order', 'finn')]);
      await heard('buyers', ['cleo', 'eve', 'finn']);
      t.match(await standings(app), { viewers: { hold: 'edited' } });
      t.notOk('finn' in receiver.state('viewers'), 'nothing is sent of the edited one');
      sweep.goOn();
      await heard('viewers', ['ann', 'cleo', 'eve', 'finn']);
    },
  );

  await t.test('ends with the last of several edits', async (t) => {
    for (const edited of [BOTH, VIEWERS, EITHER, BOTH]) {
      await app.close();
      app = await opened(service, receiver.url, [BUYERS, edited], [ORDERS]);
      await app.start({ collect: true, schedules: true });
      await send(app, [did('View', 'finn')]);
    }
    await heard('viewers', ['cleo', 'eve', 'finn']);
    await caughtUp(app);
    await delivered(app);
    for (const key of ['buyers', 'viewers', 'orders'])
      t.strictSame(receiver.state(key), Object.fromEntries(await membersOf(app, key)), key);
  });
  await t.test('removes state when nothing is live, and builds it again when something is', async (t) => {
    await app.close();
    app = await opened(service, receiver.url, []);
    await app.start({ collect: true, schedules: true });
    t.equal(await stateCount(app, 0), 0);
    await app.close();
    app = await opened(service, receiver.url, [BUYERS]);
    await app.start({ collect: true, schedules: true });
    await send(app, [did('Order', 'gil')]);
    await heard('buyers', ['cleo', 'eve', 'finn', 'gil']);
  });
  t.same(receiver.faults, []);
});

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

let sent = 0;
function did(event: string, userId: string): object {
  sent += 1;
  return { type: 'track', event, userId, messageId: `did-${sent}`, properties: { total: 1 } };
}

async function opened(
  service: LoggingService,
  webhookUrl: string,
  audiences: readonly object[],
  traits: readonly { readonly key: string }[] = [],
): Promise<App> {
  const live = (given: readonly object[]) =>
    given.map((each) => ({ name: (each as { key: string }).key, source: 'personas', live: true, ...each }));
  return service.open([], {
    network: { allow: ['127.0.0.0/8'] },
    destinations: [{ name: 'crm', sources: ['personas'], webhookUrl }],
    audiences: live(audiences),
    traits: live(traits),
  });
}

/** Has a verb of the store wait; `isEmpty`: until then it says that there is more to do, and nothing of it. */
function holdUp(app: App, verb: 'fillState' | 'personsAfter', isEmpty = false) {
  const { live } = app.store;
  const original = live[verb] as (...given: unknown[]) => Promise<unknown>;
  let arrive = () => {};
  let goOn = () => {};
  const reached = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  const gate = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  let isOpen = false;
  void gate.then(() => {
    isOpen = true;
  });
  Object.assign(live, {
    [verb]: async (...given: unknown[]) => {
      arrive();
      if (isEmpty && !isOpen) return [''];
      await gate;
      return original.apply(live, given);
    },
  });
  return { reached, goOn };
}

async function standings(app: App) {
  const statuses = await app.sync.audiences();
  return Object.fromEntries(statuses.map(({ key, live }) => [key, live]));
}

/** Waits until there are so many. */
async function stateCount(app: App, wanted = 1): Promise<number> {
  for (;;) {
    const states = await app.store.live.allStates();
    if (states.length === wanted) return wanted;
    await pause(50);
  }
}
