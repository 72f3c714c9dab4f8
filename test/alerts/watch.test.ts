import t, { type Test } from 'tap';
import { alertDestinations } from '../../src/alerts/announcement.ts';
import { AlertWatch, LOOK_EVERY } from '../../src/alerts/watch.ts';
import type { Concern } from '../../src/concern.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import type { Store } from '../../src/store/port.ts';
import { parse, withParts } from '../config/helpers.ts';
import { ManualClock } from '../helpers/clock.ts';
import { openTestStore } from '../helpers/store.ts';

const MINUTE = 60_000;
const TWO_HOOKS = `alerts:
  notify: [{ url: "https://ops.example.com/in" }, { url: "https://hooks.slack.com/services/T/B/hush" }]
  link: https://rollcall.example.com/
  rules: { endpointDead: { after: 0s }, deadLetters: { after: 0s } }`;

const dead = (destination: string): Concern => ({
  ...{ kind: 'endpointDead', subject: `id-${destination}`, destination, since: null },
  message: `${destination} does not answer.`,
});

interface Bench {
  readonly clock: ManualClock;
  readonly store: Store;
  /** Concerns that hold from now on. */
  needs: readonly Concern[];
  /** Accepted messages, by destination, each id once as the store has it. */
  readonly sent: { readonly to: string; readonly body: string }[];
  /** Fails instead of accepting. */
  refuses: boolean;
  watch(): AlertWatch;
  stop(watch: AlertWatch): Promise<void>;
  /** Time passes until the next look of every watch is over. */
  next(ms?: number): Promise<void>;
}

async function bench(t: Test, top = TWO_HOOKS): Promise<Bench> {
  const clock = new ManualClock();
  const store = await openTestStore(1_000, clock);
  t.teardown(() => store.close());
  const { alerts } = parse(withParts({ top }));
  const [watches, seen]: [AlertWatch[], Set<string>] = [[], new Set()];
  let looks = 0;
  const made: Bench = {
    ...{ clock, store, needs: [], sent: [], refuses: false },
    watch() {
      const watch = new AlertWatch({
        ...{ store, clock, log: { warn() {}, info() {} }, config: () => alerts },
        aboutOf: ({ destination }) => (destination === 'crm' ? { owner: 'growth', labels: { tier: 'gold' } } : {}),
        accept: async (_source, [message], { to = [] } = {}) => {
          if (made.refuses) throw new RollcallError('store_full', 'no room');
          if (message && !seen.has(message.messageId)) made.sent.push({ to: to.join(), body: message.body });
          if (message) seen.add(message.messageId);
          return { accepted: 1, duplicates: 0, suppressed: 0 };
        },
        concerns: async () => made.needs,
      });
      watches.push(watch);
      watch.start();
      looks += 1;
      return watch;
    },
    async stop(watch) {
      looks -= 1;
      await watch.stop();
    },
    async next(ms = LOOK_EVERY) {
      await clock.timer(LOOK_EVERY, looks);
      clock.advance(ms);
      await clock.timer(LOOK_EVERY, looks);
    },
  };
  t.teardown(() => Promise.all(watches.map((watch) => watch.stop())));
  return made;
}

const events = (bench: Bench) =>
  bench.sent.splice(0).map(({ to, body }) => `${to}: ${JSON.parse(body).event ?? JSON.parse(body).text}`);

t.test('notifies each hook when an alert opens and closes, in its format', async (t) => {
  const it = await bench(t);
  it.watch();
  await it.next();
  t.same(events(it), []);
  it.needs = [dead('crm')];
  await it.next();
  const [json, slack] = it.sent;
  t.match(JSON.parse(json?.body ?? ''), {
    ...{ version: 1, type: 'track', event: 'Alert Opened', messageId: /^alert-/ },
    properties: {
      ...{ kind: 'endpointDead', message: 'An endpoint is down', more: 0 },
      alerts: [
        {
          ...{ subject: 'id-crm', destination: 'crm', audience: null, message: 'crm does not answer.' },
          ...{ owner: 'growth', labels: { tier: 'gold' } },
          link: 'https://rollcall.example.com/endpoints/id-crm',
        },
      ],
    },
  });
  t.match(JSON.parse(slack?.body ?? ''), { text: 'An endpoint is down: crm does not answer.', blocks: [{}] });
  t.same(events(it), [
    'rollcall:alerts:json: Alert Opened',
    'rollcall:alerts:slack: An endpoint is down: crm does not answer.',
  ]);
  it.needs = [];
  await it.next();
  t.same(events(it), [], 'it may come back');
  await it.next(MINUTE);
  t.match(events(it), ['rollcall:alerts:json: Alert Closed', /^rollcall:alerts:slack: Over: an endpoint/]);
  const { alerts } = await it.store.alerts({ limit: 5 });
  t.match(alerts, [{ isOver: true, about: { destination: 'crm' } }]);
});

t.test('does not alert a hook about itself, so that alerts can not loop', async (t) => {
  const it = await bench(t);
  it.watch();
  it.needs = [dead('rollcall:alerts:slack')];
  await it.next();
  t.same(events(it), ['rollcall:alerts:json: Alert Opened']);
  const letters = (destination: string): Concern => ({
    ...{ kind: 'deadLetters', subject: destination, destination, since: null, message: 'dead letters' },
  });
  // Both are broken, and each announcement of it dies in turn.
  for (let n = 0; n < 50; n += 1) {
    it.needs = ['json', 'slack'].flatMap((name) => [
      dead(`rollcall:alerts:${name}`),
      letters(`rollcall:alerts:${name}`),
    ]);
    await it.next();
  }
  t.equal(it.sent.length, 3, 'one for each thing that is broken, to the other hook');
});

t.test('sends each announcement once, in spite of failures and crashes', async (t) => {
  const it = await bench(t);
  const first = it.watch();
  it.refuses = true;
  it.needs = [dead('crm')];
  await it.next();
  t.same(events(it), []);
  await it.stop(first);
  it.refuses = false;
  const { store } = it;
  let isCut = true;
  const save = store.saveAlerts;
  // The process dies between what it accepts and writing that down.
  Object.assign(store, {
    saveAlerts: async (...given: Parameters<Store['saveAlerts']>) => {
      if (isCut && given[0].some(({ opening }) => opening?.sent)) throw new RollcallError('store_failed', 'cut');
      return save(...given);
    },
  });
  const second = it.watch();
  await it.stop(second);
  t.equal(events(it).length, 2, 'another process goes on');
  isCut = false;
  it.watch();
  await it.next(0);
  t.same(events(it), [], 'the same ids are the same messages');
  t.match(await store.currentAlerts(0), [{ opening: { sent: true } }]);
});

t.test('checks in one of several processes, and another takes over when it stops', async (t) => {
  const it = await bench(t);
  const first = it.watch();
  await it.clock.timer(LOOK_EVERY);
  it.watch();
  it.needs = [dead('crm')];
  await it.next();
  t.equal(events(it).length, 2);
  await it.stop(first);
  it.needs = [];
  for (const ms of [LOOK_EVERY, MINUTE, LOOK_EVERY]) await it.next(ms);
  t.equal(events(it).length, 2, 'it knows what was open');
});

t.test('makes hooks destinations, and hides the path of their URLs', async (t) => {
  const { alerts } = parse(withParts({ top: TWO_HOOKS }));
  t.match(alertDestinations(alerts), [
    { name: 'rollcall:alerts:json', endpoints: [{ isSecret: true }] },
    { name: 'rollcall:alerts:slack', sources: ['rollcall:alerts'] },
  ]);
});
