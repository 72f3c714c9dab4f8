import t from 'tap';
import type { AudienceStatus } from '../../jobs/index.ts';
import { standingOf } from '../../src/admin/concerns.ts';
import type { Concern } from '../../src/concern.ts';
import {
  type Backlog,
  type EndpointState,
  HISTORY_COUNTS,
  type HistorySum,
  type OldestUntried,
} from '../../src/store/port.ts';
import { parse, withParts } from '../config/helpers.ts';

const NOW = Date.parse('2026-03-01T12:00:00Z');
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

const NONE = Object.fromEntries(HISTORY_COUNTS.map((name) => [name, 0])) as HistorySum['counts'];

interface Given {
  readonly top?: string;
  readonly endpoints?: readonly EndpointState[];
  readonly backlogs?: readonly Backlog[];
  readonly oldest?: readonly OldestUntried[];
  readonly passed?: readonly HistorySum[];
  readonly audiences?: readonly AudienceStatus[];
  readonly before?: readonly Concern[];
  readonly now?: number;
  readonly logTrouble?: { readonly since: number; readonly message: string };
}

async function concerns({ top = '', endpoints = [], backlogs = [], oldest = [], passed = [], ...given }: Given) {
  const { destinations, alerts } = parse(withParts({ top }));
  const store = {
    time: { now: () => NOW, toWall: (time: number) => time },
    backlog: async () => backlogs,
    endpoints: async () => endpoints,
    oldestUntried: async () => oldest,
    historySums: async () => passed,
  };
  const { audiences = [], before = [], now = NOW } = given;
  const parts = {
    store,
    audiences: async () => audiences,
    destinations,
    sources: ['shop'],
    rules: alerts.rules,
    now,
    before,
    logTrouble: given.logTrouble ?? null,
  };
  return (await standingOf(parts)).concerns;
}

const status = (trend: readonly number[], over: Partial<AudienceStatus> = {}): AudienceStatus => ({
  ...{ key: 'a', kind: 'audience', engine: 'lake', source: 'shop', state: 'ok', members: trend.at(-1) ?? null, trend },
  ...{ schedule: null, nextRunAt: null, overdueSince: null, live: null, paused: null, ordered: null, todo: null },
  lastRun: { id: 'r1', startedAt: NOW - HOUR } as AudienceStatus['lastRun'],
  ...over,
});

t.test('reports a size that is far from earlier ones, if there are enough of them', async (t) => {
  const kinds = async (...trend: number[]) => (await concerns({ audiences: [status(trend)] })).map(({ kind }) => kind);
  t.same(await kinds(1_000, 1_010, 990, 1_000, 0), [], 'four runs say nothing');
  t.same(await kinds(1_000, 1_010, 990, 1_000, 1_005, 690), ['unusualSize']);
  t.same(await kinds(1_000, 1_010, 990, 1_000, 1_005, 710), []);
  t.same(await kinds(1_000, 1_010, 990, 1_000, 1_005, 1_400), ['unusualSize'], 'more than usual, too');
  t.same(await kinds(500, 1_500, 700, 1_300, 1_000, 400), [], 'of one that varies much, little is unusual');
  t.same(await kinds(3, 4, 5, 3, 4, 13), [], 'ten people more are nothing');
  t.same(await kinds(5_000, 5_000, 5_000, 5_000, 5_000, 5_000, 5_000, 5_000, 5_000, 0), ['unusualSize']);
  const off = await concerns({
    top: 'alerts: { rules: { unusualSize: { by: 90% } } }',
    audiences: [status([9, 9, 9, 9, 9, 3].map((n) => n * 100))],
  });
  t.same(off, []);
});

t.test('reports an audience that found nobody in its first runs', async (t) => {
  const kinds = async (given: AudienceStatus) => (await concerns({ audiences: [given] })).map(({ kind }) => kind);
  const [first] = await concerns({ audiences: [status([0])] });
  t.match(first, { kind: 'unusualSize', message: /nobody since its first sync/, run: 'r1' });
  t.same(await kinds(status([0, 0, 0])), ['unusualSize'], 'not only once');
  t.same(await kinds(status([0, 2])), []);
  t.same(await kinds(status([0, 0, 0, 0, 0, 0])), [], 'by then it is usual');
  t.same(await kinds(status([0], { live: { lag: 0, progress: null, ids: 0, due: 0, hold: null } })), []);
});

t.test('compares a new size with the former usual one for a day', async (t) => {
  const [first] = await concerns({ audiences: [status([1_000, 1_000, 1_000, 1_000, 1_000, 100])] });
  t.match(first, { message: 'a has 100 members; usually it has 700 to 1300.', usual: { low: 700, high: 1_300 } });
  const stays = status([1_000, 100, 100, 100, 100, 100, 100]);
  const before = first ? [first] : [];
  t.same(await concerns({ audiences: [stays] }), [], 'who did not see it take the new one for usual');
  t.match(await concerns({ audiences: [stays], before }), [{ since: first?.since, usual: first?.usual }]);
  t.same(await concerns({ audiences: [status([1_000, 100, 100, 100, 100, 100, 950])], before }), [], 'it is back');
  t.same(await concerns({ audiences: [stays], before, now: NOW + 24 * HOUR }), [], 'after a day it is usual');
});

t.test('reports a slow backlog only for destinations with an open endpoint', async (t) => {
  const { destinations } = parse(withParts({}));
  const [
    {
      name,
      endpoints: [{ id } = { id: '' }],
    } = { name: '', endpoints: [] },
  ] = destinations;
  const oldest = [{ destination: name, since: NOW - 16 * MINUTE }];
  t.match(await concerns({ oldest }), [{ kind: 'backlogOld', destination: name, message: /for 16 min/ }]);
  t.same(await concerns({ oldest: [{ destination: name, since: NOW - 14 * MINUTE }] }), []);
  t.same(await concerns({ oldest, top: 'alerts: { rules: { backlogOld: { olderThan: 1h } } }' }), []);
  const dead = { endpoint: id, destination: name, pausedAt: null, deadSince: NOW - HOUR };
  t.match(await concerns({ oldest, endpoints: [dead] }), [{ kind: 'endpointDead' }], 'that says it all');
  const messageOf = async (deadCause: string, deadAnswer: string | null = null, failed = 0) => {
    const counts = { ...NONE, retried: failed };
    const passed = [{ name: id, took: [], counts }];
    return (await concerns({ endpoints: [{ ...dead, deadCause, deadAnswer }], passed }))[0]?.message;
  };
  t.match(await messageOf('status_500'), / answers 500 to everything at http\S+\.$/);
  t.match(
    await messageOf('status_500', 'Database is locked.', 67),
    / answers 500 to everything at http\S+: Database is locked\. 67 requests have failed\.$/,
  );
  t.match(
    await messageOf('ECONNREFUSED', null, 1),
    / does not answer \(ECONNREFUSED\) at http\S+\. One request has failed\.$/,
  );
});

t.test('reports dead letters from a number on, and overdue runs unless they need something else', async (t) => {
  const backlogs = [{ destination: 'crm', pending: 0, queued: 0, dead: 5, heldOut: 0 }];
  t.match(await concerns({ backlogs }), [{ kind: 'deadLetters', message: 'crm has 5 dead letters.' }]);
  t.same(await concerns({ backlogs, top: 'alerts: { rules: { deadLetters: { moreThan: 5 } } }' }), []);
  const late = { overdueSince: NOW - HOUR };
  t.match(await concerns({ audiences: [status([1], late)] }), [
    { kind: 'runOverdue', message: /^a is overdue: it last ran/ },
  ]);
  const todo = { do: 'repair', run: 'r1', code: 'sql_failed', reason: 'no table', since: NOW - 3 * HOUR } as const;
  t.match(await concerns({ audiences: [status([1], { ...late, todo })] }), [
    { kind: 'runFailed', run: 'r1', since: new Date(NOW - 3 * HOUR).toISOString() },
  ]);
});

t.test('reports a source of which many messages are discarded', async (t) => {
  const shop = (counts: Partial<HistorySum['counts']>) => [{ name: 'shop', counts: { ...NONE, ...counts }, took: [] }];
  t.match(await concerns({ passed: shop({ accepted: 80, discarded: 20 }) }), [
    {
      kind: 'sourceDiscards',
      source: 'shop',
      message: 'shop sent 100 messages in ten minutes, and 20 of them were discarded.',
    },
  ]);
  t.same(await concerns({ passed: shop({ accepted: 81, discarded: 19 }) }), [], 'a handful is nothing');
  t.same(await concerns({ passed: shop({ accepted: 100, duplicates: 60, suppressed: 20, discarded: 20 }) }), []);
  const top = 'alerts: { rules: { sourceDiscards: { moreThan: 50% } } }';
  t.same(await concerns({ top, passed: shop({ accepted: 50, discarded: 50 }) }), []);
  t.match(await concerns({ top, passed: shop({ accepted: 49, discarded: 51 }) }), [{ kind: 'sourceDiscards' }]);
});

t.test('says what keeps the event log from going on, and since when', async (t) => {
  const message = 'PUT s3://bucket/log at https://s3.test failed: 503 SlowDown.';
  const found = await concerns({ logTrouble: { since: NOW - HOUR, message } });
  t.match(found, [{ kind: 'eventLogStuck', since: '2026-03-01T11:00:00.000Z', message }]);
  t.same(await concerns({}), []);
});
