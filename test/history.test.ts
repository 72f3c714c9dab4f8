import { pino } from 'pino';
import t from 'tap';
import { History } from '../src/history/history.ts';
import type { Attempt, HistoryEntry, Settlement, Verdict } from '../src/store/port.ts';
import { attempt, DELIVERED, REFUSED, retryAt, run } from './contract/store-fixture.ts';
import { ManualClock } from './helpers/clock.ts';

const log = pino({ level: 'silent' });
/** A second into a minute. */
const START = Date.parse('2026-01-02T12:00:01.000Z');

interface Written {
  readonly at: number;
  readonly entries: readonly HistoryEntry[];
}

/** A history over a store that writes down what it is given. */
function setUp() {
  const clock = new ManualClock(START);
  const written: Written[] = [];
  const told = { leased: true, fails: false, pruned: [] as number[] };
  const history = new History({
    clock,
    log,
    store: {
      time: { now: () => clock.now(), toWall: (time) => time },
      async addHistory(at, entries) {
        if (told.fails) throw new Error('gone');
        written.push({ at, entries });
      },
      trustsClocks: async () => true,
      pruneHistory: async (_now, limit) => Math.min(limit, told.pruned.shift() ?? 0),
      takeLease: async (name) => (told.leased ? { lease: name, token: 1 } : null),
      backlog: async () => [{ destination: 'crm', pending: 7, dead: 0, queued: 7, heldOut: 0 }],
      oldestUntried: async () => [{ destination: 'crm', since: clock.now() - 5_000 }],
    },
    live: { audiences: async () => [{ key: 'loyal', members: 12 }] },
  });
  const entriesOf = (subject: HistoryEntry['subject']) =>
    written.flatMap(({ at, entries }) =>
      entries.filter((entry) => entry.subject === subject).map((entry) => ({ at, ...entry })),
    );
  const tick = async () => {
    clock.advance(10_000 - (clock.now() % 10_000));
    await clock.timer(10_000);
  };
  return { clock, history, written, told, entriesOf, tick };
}

const settled = (verdict: Verdict, attempts: readonly Attempt[] = [], over = {}): Settlement => ({
  claim: {
    ...{ id: 'd1', destination: 'crm', source: 'shop', messageId: 'm1', type: 'track', userId: 'u1', body: '{}' },
    ...{
      lane: 'live',
      conflict: null,
      run: null,
      tries: 0,
      acceptedAt: START - 60,
      firstAt: null,
      marks: {},
      crashes: 0,
    },
    ...over,
  },
  verdict,
  attempts,
});

t.test('writes ten seconds of counts at once, added to the minute in which they were counted', async (t) => {
  const { history, written, entriesOf, tick, told } = setUp();
  told.leased = false;
  history.start();
  history.accepted('shop', { accepted: 2, duplicates: 0, suppressed: 0 }, new Map([['crm', 2]]));
  history.tally.settled(settled(DELIVERED, [attempt({ ms: 3 })]));
  history.tally.settled(settled(retryAt(START), [attempt({ ms: 900, outcome: 'retry' })]));
  history.tally.settled(settled(REFUSED, [attempt({ ms: 30, outcome: 'refused' }), attempt({ outcome: 'skipped' })]));
  history.tally.settled(settled(DELIVERED, [], { destination: 'erp', acceptedAt: START - 700 }));
  history.discarded('shop');
  await tick();
  t.equal(written.length, 1);
  t.match(entriesOf('destination'), [
    { at: START, name: 'crm', counts: { accepted: 2, delivered: 1, retried: 1, dead: 1 }, took: [0, 0, 1, 0, 0] },
    { at: START, name: 'erp', counts: { accepted: 0, delivered: 1 }, took: [0, 0, 0, 0, 1] },
  ]);
  t.match(entriesOf('endpoint'), [
    { name: 'e1', counts: { delivered: 1, retried: 1, dead: 1 }, took: [1, 0, 0, 1, 0, 0, 0, 1] },
  ]);
  t.match(entriesOf('source'), [{ name: 'shop', counts: { accepted: 2, discarded: 1 } }]);
  t.match(entriesOf('all'), [{ name: '', counts: { accepted: 2, delivered: 2, dead: 1 }, took: [0, 0, 1, 0, 1] }]);
  await tick();
  t.equal(written.length, 1, 'nothing passed, nothing is written');
  for (let n = 0; n < 3; n += 1) await tick();
  history.tally.settled(settled(DELIVERED));
  await tick();
  t.match(written[1], { at: START + 49_000, entries: [{ subject: 'all' }, { name: 'crm', counts: { delivered: 1 } }] });
});

t.test('subtracts repeated messages from deliveries in proportion', async (t) => {
  const { history, entriesOf, tick } = setUp();
  history.start();
  const counts = new Map([
    ['crm', 10],
    ['erp', 5],
  ]);
  history.accepted('shop', { accepted: 5, duplicates: 4, suppressed: 1 }, counts);
  history.accepted('shop', { accepted: 0, duplicates: 10, suppressed: 0 }, counts);
  await tick();
  t.match(entriesOf('source'), [{ counts: { accepted: 5, duplicates: 14, suppressed: 1 } }]);
  t.same(
    entriesOf('destination').flatMap(({ name, counts }) => (counts ? [[name, counts.accepted]] : [])),
    [
      ['crm', 5],
      ['erp', 3],
    ],
  );
});

t.test('samples queues and sizes of live audiences, and prunes, in one process each minute', async (t) => {
  const { clock, entriesOf, history, tick, told, written } = setUp();
  told.pruned = [1_000, 1_000, 3];
  history.start();
  await tick();
  t.match(entriesOf('all'), [{ at: START - 1_000, pending: 7, oldest: 5_000 }]);
  t.match(entriesOf('destination'), [{ name: 'crm', pending: 7, oldest: 5_000 }]);
  t.match(entriesOf('audience'), [{ name: 'loyal', members: 12 }], 'what is live has no runs that say how large it is');
  t.same(told.pruned, []);
  await tick();
  t.equal(written.length, 1, 'once in a minute');
  told.leased = false;
  clock.advance(60_000);
  await clock.timer(10_000);
  t.equal(written.length, 1, 'another process does');
});

t.test(
  'writes counts that the store refused later, to the minute in which they were counted, within bounds',
  async (t) => {
    const { history, tick, told, written } = setUp();
    told.leased = false;
    told.fails = true;
    history.start();
    for (let n = 0; n < 40; n += 1) {
      history.tally.settled(settled(DELIVERED));
      await tick();
    }
    told.fails = false;
    await history.stop();
    t.equal(written.length, 30);
    t.equal(written[0]?.at, START - 1_000 + 100_000);
  },
);

t.test('writes remaining counts at a clean stop, also without a start', async (t) => {
  const { history, written } = setUp();
  history.tally.settled(settled(DELIVERED));
  await history.stop();
  t.match(written, [{ at: START, entries: [{ subject: 'all' }, { name: 'crm', counts: { delivered: 1 } }] }]);
  const { history: idle, written: nothing } = setUp();
  idle.start();
  await idle.stop();
  t.same(nothing, []);
});

t.test('records members entered and left, sizes, and failures of runs', async (t) => {
  const { entriesOf, history } = setUp();
  const done = (over = {}) => run({ state: 'done', members: 10, entered: 4, exited: 1, ...over });
  history.reported({ key: 'vips', runs: [done(), done({ members: 12, entered: 2, exited: 0 })], failed: false });
  history.reported({ key: 'vips', runs: [done({ action: 'backfill', entered: 12, members: 12 })], failed: true });
  history.reported({ key: 'held', runs: [run({ state: 'held' })], failed: false });
  history.reported({ key: 'ended', runs: [done({ action: 'retire' })], failed: false });
  await history.stop();
  const [vips, held, ended] = entriesOf('audience');
  t.match(vips, { name: 'vips', members: 12, counts: { runs: 3, entered: 6, exited: 1, failed: 1 } });
  t.match(held, { name: 'held', counts: {}, members: undefined });
  t.match(ended, { members: 0, counts: { runs: 1 } });
});

t.test('records members entered and left of live audiences as they are computed, apart from runs', async (t) => {
  const { entriesOf, history } = setUp();
  history.moved([
    { key: 'loyal', entered: 3, exited: 0 },
    { key: 'gone', entered: 0, exited: 2 },
  ]);
  history.moved([{ key: 'loyal', entered: 1, exited: 4 }]);
  history.reported({
    key: 'loyal',
    runs: [run({ state: 'done', members: 10, entered: 10, exited: 0 })],
    failed: false,
  });
  await history.stop();
  const [loyal, gone] = entriesOf('audience');
  t.match(loyal, { name: 'loyal', members: 10, counts: { runs: 1, entered: 14, exited: 4 } });
  t.match(gone, { name: 'gone', counts: { entered: 0, exited: 2 }, members: undefined });
});
