import * as z from 'zod';
import type { Clock } from '../../kernel/clock.ts';
import { RollcallError } from '../../kernel/errors.ts';
import {
  ATTEMPT_BOUNDS,
  DELIVERY_BOUNDS,
  HISTORY_KEPT,
  HISTORY_STEPS,
  HISTORY_SUBJECTS,
  type HistoryCounts,
  type HistoryFilter,
  type HistoryPoint,
  type HistoryStep,
  type HistorySubject,
  type HistorySum,
  type Records,
  STEP_LENGTH,
  stepOf,
} from '../../store/port.ts';
import { percentile } from '../percentile.ts';
import { type ApiRoutes, reading } from './route.ts';
import { cursorOf, instant, iso, pageOf, paging, placeOf, time } from './shapes.ts';

const count = z.int().nullable().optional();
const ms = z.int().nullable().optional();

/** All counts. Each kind of subject has some of them, and the others are left out. */
const sums = {
  accepted: count.describe('Messages; of a destination, deliveries made of them.'),
  duplicates: count,
  suppressed: count,
  discarded: count,
  delivered: count,
  retried: count.describe('Tries that failed and are made again; of an endpoint, attempts.'),
  dead: count.describe('Deliveries that became dead letters.'),
  succeeded: count.describe('Attempts that the endpoint took.'),
  refused: count.describe('Attempts that the endpoint refused for good.'),
  entered: count,
  exited: count,
  runs: count.describe('Runs that were done.'),
  failed: count.describe('Runs that failed.'),
  p50Ms: ms.describe('From acceptance to delivery; of an endpoint, of an attempt. Estimated, as are the others.'),
  p95Ms: ms,
  p99Ms: ms,
};

const point = z.object({
  at: time.describe('The beginning of the step, UTC.'),
  ...sums,
  pending: count.describe('Deliveries that waited, at most.'),
  oldestMs: ms.describe('The age of what waited longest for its first try, at most.'),
  members: count.describe('After the last run by then.'),
});

const sum = z.object({ name: z.string(), ...sums });

/** The most steps of one answer. */
const MOST = 1_600;
/** The most sums of one answer. Sums are short, and lists show those of all their rows. */
const MOST_SUMS = 5_000;
/** The most steps that are added up: with a thousand destinations, each step has a thousand rows. */
const MOST_ADDED = 60;
/** The default length of an answer, in steps. */
const USUAL: Readonly<Record<HistoryStep, number>> = { minute: 360, hour: 168, day: 400 };

export interface HistoryParts {
  readonly store: Pick<Records, 'history' | 'historySums'>;
  readonly clock: Pick<Clock, 'now'>;
}

export function historyRoutes(routes: ApiRoutes, { store, clock }: HistoryParts): void {
  const of = z.enum(HISTORY_SUBJECTS).default('all');
  const step = z.enum(HISTORY_STEPS).default('minute');
  reading(routes, '/history', {
    summary: 'Counts by time, step by step',
    description: `All of it, or of one source, destination, endpoint or audience. At most ${MOST} steps; minutes go back for a day, hours for a month, days for a year. Null where no process ran.`,
    tag: 'History',
    query: z.object({
      of,
      name: z.string().default('').describe('Of the subject: the id of an endpoint, the key of an audience.'),
      step,
      since: instant.optional(),
      until: instant.optional().describe('Now, unless given.'),
    }),
    answer: z.object({ step: z.enum(HISTORY_STEPS), data: z.array(point) }),
    handle: async ({ query: { of: subject, name, step, ...range } }) => {
      const length = STEP_LENGTH[step];
      const until = Math.min(range.until ?? Number.POSITIVE_INFINITY, clock.now() + 1);
      const earliest = clock.now() - HISTORY_KEPT[step];
      const since = stepOf(Math.max(range.since ?? until - (USUAL[step] - 1) * length, earliest), step);
      const steps = Math.max(0, Math.ceil((until - since) / length));
      if (steps > MOST)
        throw new RollcallError('invalid_request', `since: asks for more than ${MOST} steps of a ${step}`);
      const filter = { subject, name, step, since, until, limit: steps };
      return { step, data: await pointsOf(store, filter) };
    },
  });
  reading(routes, '/history/sums', {
    summary: 'Counts over a time, of each of them',
    description: `Of all sources, destinations, endpoints or audiences to which anything did, by name. At most ${MOST_ADDED} steps.`,
    tag: 'History',
    query: z.object({
      ...paging,
      limit: z.coerce.number().int().min(1).max(MOST_SUMS).default(100).describe('Rows of a page at most.'),
      of: z.enum(HISTORY_SUBJECTS).default('destination'),
      step: step.default('hour').describe('The steps that are added up: fewer cost less.'),
      since: instant.optional().describe('A day ago, unless given; of minutes an hour.'),
      name: z.string().optional().describe('Of this one only.'),
    }),
    answer: pageOf(sum),
    handle: async ({ query: { of: subject, step, since, name, limit, cursor } }) => {
      const from = summedFrom(step, since, clock.now());
      const after = placeOf(cursor, /[\s\S]/);
      // Sort here, since each database has its own rules for names.
      const named = name === undefined ? undefined : [name];
      const all = (await store.historySums(subject, step, from, named)).toSorted((a, b) => (a.name < b.name ? -1 : 1));
      const left = after === undefined ? all : all.filter(({ name }) => name > after);
      const page = left.slice(0, limit);
      return {
        data: page.map((each) => ({ name: each.name, ...sumsOf(subject, each) })),
        next: left.length > limit ? cursorOf(page.at(-1)?.name ?? '') : null,
      };
    },
  });
}

/** @throws RollcallError `invalid_request` for more steps than are added up */
function summedFrom(step: HistoryStep, since: number | undefined, now: number): number {
  const length = STEP_LENGTH[step];
  const usual = step === 'minute' ? STEP_LENGTH.hour : STEP_LENGTH.day;
  const from = stepOf(since ?? now - usual + length, step);
  if ((now - from) / length <= MOST_ADDED) return from;
  const message = `since: adds up at most ${MOST_ADDED} steps of a ${step}; longer steps go further`;
  throw new RollcallError('invalid_request', message);
}

/** Every step of the range. A subject without a row in a step has counts of 0, if a process was running then. */
async function pointsOf(store: HistoryParts['store'], filter: HistoryFilter) {
  const { subject, step, since, until, limit } = filter;
  const [found, all, before] = await Promise.all([
    store.history(filter),
    subject === 'all' ? [] : store.history({ ...filter, subject: 'all', name: '' }),
    subject === 'audience' ? membersBefore(store, filter) : null,
  ]);
  const points = new Map(found.map((point) => [point.at, point]));
  const seen = new Set([...found, ...all].map(({ at }) => at));
  // Backlogs are sampled once per step. Without the sample, it is not known that nothing waited.
  const looked = new Set((subject === 'all' ? found : all).flatMap(({ at, pending }) => (pending === null ? [] : at)));
  let members = before;
  return Array.from({ length: limit }, (_, place) => since + place * STEP_LENGTH[step])
    .filter((at) => at < until)
    .map((at) => {
      const point = points.get(at) ?? null;
      members = point?.members ?? members;
      const isKnown = { ever: seen.has(at), waiting: looked.has(at) };
      return { at: iso(at), ...shownAt(subject, point, isKnown, members) };
    });
}

/** Steps searched for a size. Steps without a finished run have none. */
const LOOKED_AT = 50;

/** The last size before the range. Days are kept the longest, but the day in which the range begins ends after that. */
async function membersBefore(store: HistoryParts['store'], filter: HistoryFilter): Promise<number | null> {
  const { since } = filter;
  const near = await store.history({ ...filter, since: 0, until: since, limit: LOOKED_AT });
  const days = { ...filter, step: 'day', since: 0, until: since - STEP_LENGTH.day + 1, limit: LOOKED_AT } as const;
  const last = (points: readonly HistoryPoint[]) => points.findLast(({ members }) => members !== null)?.members;
  return last(near) ?? last(await store.history(days)) ?? null;
}

function shownAt(
  subject: HistorySubject,
  point: HistoryPoint | null,
  isKnown: { readonly ever: boolean; readonly waiting: boolean },
  members: number | null,
) {
  const shown = sumsOf(subject, point ?? NOTHING);
  const known = isKnown.ever ? shown : Object.fromEntries(Object.keys(shown).map((name) => [name, null]));
  if (subject === 'audience') return { ...known, members };
  if (subject !== 'all' && subject !== 'destination') return known;
  const none = isKnown.waiting ? 0 : null;
  return { ...known, pending: point?.pending ?? none, oldestMs: point?.oldest ?? none };
}

const NOTHING = { counts: {}, took: [] } as const;

type Sums = { readonly counts: Partial<HistoryCounts> } & Pick<HistorySum, 'took'>;

function sumsOf(subject: HistorySubject, { counts, took }: Sums) {
  const of = (name: keyof HistoryCounts) => counts[name] ?? 0;
  if (subject === 'source') {
    const [accepted, duplicates] = [of('accepted'), of('duplicates')];
    return { accepted, duplicates, suppressed: of('suppressed'), discarded: of('discarded') };
  }
  if (subject === 'audience') {
    return { entered: of('entered'), exited: of('exited'), runs: of('runs'), failed: of('failed') };
  }
  if (subject === 'endpoint') {
    const attempts = { succeeded: of('delivered'), retried: of('retried'), refused: of('dead') };
    return { ...attempts, ...percentiles(ATTEMPT_BOUNDS, took) };
  }
  const { accepted = 0, delivered = 0, retried = 0, dead = 0 } = counts;
  return { accepted, delivered, retried, dead, ...percentiles(DELIVERY_BOUNDS, took) };
}

function percentiles(bounds: readonly number[], took: readonly number[]) {
  const counts = took.slice(0, bounds.length + 1);
  const of = (part: number) => percentile(bounds, counts, part);
  return { p50Ms: of(0.5), p95Ms: of(0.95), p99Ms: of(0.99) };
}
