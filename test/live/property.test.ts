import fc from 'fast-check';
import t from 'tap';
import { dayNumber } from '../../jobs/live/event.ts';
import { askedOf, inlined, type LiveDefinition } from '../../jobs/live/facts.ts';
import { referenceTo } from '../../jobs/live/kept.ts';
import type { SyncedValue } from '../../jobs/live/synced-audiences.ts';
import type { Condition } from '../../src/definition/conditions.ts';
import {
  type Commit,
  commits,
  conditions,
  histories,
  SCORE,
  shortAudience,
  valueDefinitions,
} from '../definitions/helpers/arbitrary.ts';
import type { LoggedEvent } from '../definitions/helpers/event.ts';
import { membersOf, valuesOf } from '../definitions/helpers/reference.ts';
import { LiveModel } from './helpers/rows.ts';

/** Histories; each is asked ten definitions at every instant. LIVE_RUNS makes it longer. */
const DAY = 86_400_000;
const RUNS = Number(process.env['LIVE_RUNS'] ?? 300);

const asked = fc.record({
  events: histories,
  /** How events come in: so many at a time, and how long after the one before. */
  steps: fc.array(
    fc.record({ size: fc.nat({ max: 8 }), pause: fc.constantFrom(0, 1, 3_600_000, 86_399_999, 86_400_000) }),
    {
      minLength: 12,
      maxLength: 12,
    },
  ),
  /** How long the log keeps events: forever, or so many days and less than the next midnight. */
  keep: fc.constantFrom(null, null, 0, 1, 3),
  short: shortAudience,
  /** At some steps a sync commits other values. */
  committed: fc.array(fc.option(commits), { minLength: 12, maxLength: 12 }),
  whens: fc.array(conditions, { minLength: 6, maxLength: 6 }),
  values: fc.array(valueDefinitions, { minLength: 4, maxLength: 4 }),
});

t.test('computes random definitions over random histories as the law says, event by event', async (t) => {
  let triples = 0;
  let found = 0;
  const property = fc.asyncProperty(asked, async ({ events, steps, keep, short, committed, whens, values }) => {
    const whole = whens.map((when) => inlined(when, () => short));
    const definitions = [
      ...whole.map((when, index): LiveDefinition => ({ key: `a${index}`, kind: 'audience', when })),
      ...values.map((value, index): LiveDefinition => ({ key: `t${index}`, kind: 'trait', value })),
    ];
    const live = new LiveModel(askedOf(definitions, keep === null ? Number.POSITIVE_INFINITY : keep * DAY));
    const waiting = late(events);
    let known: LoggedEvent[] = [];
    let now = Number.NEGATIVE_INFINITY;
    let scores: Commit = {};
    for (const [step, { size, pause }] of steps.entries()) {
      const news = waiting.splice(0, size);
      known.push(...news);
      now = Math.max(now + pause, ...news.map(({ receivedAt }) => receivedAt));
      if (now === Number.NEGATIVE_INFINITY) continue;
      const first = keep === null ? Number.NEGATIVE_INFINITY : dayNumber(now - keep * DAY);
      known = known.filter(({ receivedAt }) => dayNumber(receivedAt) >= first);
      const next = committed[step] ?? scores;
      await live.advance(news, now, first, between(scores, next));
      scores = next;
      const kept = keep === null ? {} : { keep: keep * DAY };
      const history = {
        events: known,
        now,
        ...kept,
        audiences: new Map<string, Condition>(),
        committed: { [SCORE.key]: scores },
      };
      for (const [index, when] of whole.entries()) {
        const members = [...(live.members.get(`a${index}`)?.keys() ?? [])].toSorted();
        same(members, membersOf(when, history), `audience ${index}`);
        found += members.length;
      }
      for (const [index, value] of values.entries()) {
        same(Object.fromEntries(live.members.get(`t${index}`) ?? []), valuesOf(value, history), `trait ${index}`);
      }
      triples += 10 * 7;
    }
  });
  await fc.assert(property, { numRuns: RUNS });
  t.ok(found > 0, `${triples} answers about persons, ${found} of them members`);
});

/** In the order of receipt, but for every fifth, which another process was slower to write. */
function late(events: readonly LoggedEvent[]): LoggedEvent[] {
  const inOrder = events.toSorted((a, b) => a.receivedAt - b.receivedAt);
  return [...inOrder.filter((_, index) => index % 5 !== 4), ...inOrder.filter((_, index) => index % 5 === 4)];
}

/** What changes from one commit to the next. */
function between(one: Commit, other: Commit): readonly SyncedValue[] {
  const users = Object.keys({ ...one, ...other });
  return SCORE.columns.flatMap((column) =>
    users.map((user): SyncedValue => {
      const value = other[user]?.[column] ?? null;
      const name = referenceTo({ key: SCORE.key, column });
      return { name, user, value: value === null ? undefined : [user, value] };
    }),
  );
}

function same(actual: unknown, expected: unknown, what: string): void {
  const [one, other] = [canonical(actual), canonical(expected)];
  if (one !== other) throw new Error(`${what}: live says ${one}, the law ${other}`);
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return JSON.stringify(value);
  return JSON.stringify(Object.entries(value as object).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
