import {
  HISTORY_BUCKETS,
  HISTORY_KEPT,
  type HistoryEntry,
  type HistoryStep,
  type HistorySubject,
  STEP_LENGTH,
  type Store,
  stepOf,
} from '../../src/store/port.ts';
import type { Cases } from './store.ts';
import { START } from './store-fixture.ts';

const MINUTE = STEP_LENGTH.minute;
const DAY = STEP_LENGTH.day;
/** In the first of 60 minutes of an hour, so that the next minute is of the same hour. */
const NOON = Date.parse('2026-01-02T12:00:30.000Z');

const entry = (over: Partial<HistoryEntry> = {}): HistoryEntry => ({ subject: 'destination', name: 'crm', ...over });

const points = (store: Store, step: HistoryStep, over: { subject?: HistorySubject; name?: string } = {}) =>
  store.history({ subject: 'destination', name: 'crm', step, since: 0, until: NOON * 2, limit: 100, ...over });

const took = (...counts: number[]) => [...counts, ...new Array<number>(HISTORY_BUCKETS - counts.length).fill(0)];

export const historyCases: Cases = {
  'sums the counts of several processes by minute, hour and day': async (t, store, fixture) => {
    const other = await fixture.open();
    await store.addHistory(NOON, [
      entry({ counts: { delivered: 3, dead: 1 }, took: [1, 2] }),
      entry({ subject: 'all', name: '', counts: { delivered: 3 } }),
    ]);
    await other.addHistory(NOON + MINUTE - 31_000, [entry({ counts: { delivered: 4 }, took: [0, 3, 1] })]);
    await other.addHistory(NOON + MINUTE, [entry({ counts: { retried: 2 } }), entry({ name: 'erp' })]);
    t.match(await points(store, 'minute'), [
      { at: NOON - 30_000, counts: { delivered: 7, dead: 1, retried: 0, accepted: 0 }, took: took(1, 5, 1) },
      { at: NOON + 30_000, counts: { delivered: 0, retried: 2 }, took: took() },
    ]);
    for (const step of ['hour', 'day'] as const) {
      const at = stepOf(NOON, step);
      t.match(await points(other, step), [{ at, counts: { delivered: 7, retried: 2, dead: 1 }, took: took(1, 5, 1) }]);
    }
    t.match(await points(store, 'day', { subject: 'all', name: '' }), [{ counts: { delivered: 3 } }]);
    t.same(await points(store, 'day', { name: 'nobody' }), []);
  },
  'keeps the highest backlog and the last size of a step': async (t, store) => {
    await store.addHistory(NOON, [entry({ pending: 5, oldest: 900 })]);
    await store.addHistory(NOON, [entry({ pending: 9, oldest: 100 })]);
    await store.addHistory(NOON, [entry({ counts: { delivered: 1 } })]);
    t.match(await points(store, 'minute'), [{ pending: 9, oldest: 900, members: null, counts: { delivered: 1 } }]);
    const size = (members: number) => entry({ subject: 'audience', name: 'vips', members, counts: { entered: 1 } });
    await store.addHistory(NOON, [size(12)]);
    await store.addHistory(NOON + MINUTE, [size(7)]);
    await store.addHistory(NOON + MINUTE, [entry({ subject: 'audience', name: 'vips', counts: { failed: 1 } })]);
    const of = { subject: 'audience', name: 'vips' } as const;
    t.match(await points(store, 'hour', of), [{ members: 7, pending: null, counts: { entered: 2, failed: 1 } }]);
    t.match(await points(store, 'minute', of), [{ members: 12 }, { members: 7 }]);
  },
  'returns the newest steps of a range in order of time': async (t, store) => {
    for (const n of [0, 1, 2, 3]) await store.addHistory(NOON + n * MINUTE, [entry({ counts: { delivered: n } })]);
    const range = { subject: 'destination', name: 'crm', step: 'minute' } as const;
    const found = await store.history({ ...range, since: NOON, until: NOON + 3 * MINUTE - 30_000, limit: 100 });
    t.same(
      found.map(({ counts }) => counts.delivered),
      [1, 2],
    );
    const newest = await store.history({ ...range, since: 0, until: NOON * 2, limit: 2 });
    t.same(
      newest.map(({ counts }) => counts.delivered),
      [2, 3],
    );
  },
  'sums history over a range for every subject of a kind': async (t, store) => {
    const of = (name: string, delivered: number) =>
      entry({ subject: 'endpoint', name, counts: { delivered, retried: 1 }, took: [delivered] });
    await store.addHistory(NOON, [of('e1', 100), of('e 2 ü "\\', 1), entry({ counts: { delivered: 5 } })]);
    await store.addHistory(NOON + MINUTE, [of('e1', 4), of('e3', 2)]);
    await store.addHistory(NOON + 2 * MINUTE, [of('e1', 6)]);
    const since = stepOf(NOON + MINUTE, 'minute');
    t.match(await store.historySums('endpoint', 'minute', since), [
      { name: 'e1', counts: { delivered: 10, retried: 2 }, took: took(10) },
      { name: 'e3', counts: { delivered: 2 } },
    ]);
    const names = (await store.historySums('endpoint', 'day', 0)).map(({ name }) => name);
    t.same(names, ['e 2 ü "\\', 'e1', 'e3']);
    t.same(await store.historySums('source', 'day', 0), []);
    t.same(
      (await store.historySums('endpoint', 'day', 0, [...names.slice(0, 2), 'nobody'])).map(({ name }) => name),
      names.slice(0, 2),
    );
    t.same(await store.historySums('endpoint', 'day', 0, []), []);
  },
  'prunes history in steps, each step after its own retention': async (t, store) => {
    const now = NOON + 500 * DAY;
    for (const at of [NOON, now - HISTORY_KEPT.hour - DAY, now - HISTORY_KEPT.minute - 2 * MINUTE, now - MINUTE]) {
      await store.addHistory(at, [entry({ counts: { delivered: 1 } }), entry({ name: 'erp', counts: { dead: 1 } })]);
    }
    const counts: number[] = [];
    for (let count = 4; count === 4; counts.push(count)) count = await store.pruneHistory(now, 4);
    t.same(counts, [4, 4, 4, 0]);
    const left = async (step: HistoryStep) => (await store.history({ ...CRM, step, until: now })).length;
    t.same([await left('minute'), await left('hour'), await left('day')], [1, 2, 3]);
  },
  'writes history with names that Postgres cannot hold in JSON': async (t, store) => {
    for (const name of ['a\0b', 'c\ud800d']) {
      await store.addHistory(START, [entry({ name, counts: { delivered: 1 } })]);
      t.match(await store.history({ ...CRM, name, step: 'day' }), [{ counts: { delivered: 1 } }]);
    }
    await store.addHistory(START, []);
  },
};

const CRM = { subject: 'destination', name: 'crm', since: 0, until: Number.MAX_SAFE_INTEGER, limit: 100 } as const;
