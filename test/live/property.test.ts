import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import t from 'tap';
import { type Difference, differences, originOf } from '../../jobs/live/differences.ts';
import { dayNumber } from '../../jobs/live/event.ts';
import { askedOf, inlined, type LiveDefinition } from '../../jobs/live/facts.ts';
import { referenceTo } from '../../jobs/live/kept.ts';
import type { SyncedValue } from '../../jobs/live/synced-audiences.ts';
import { liveExplanation } from '../../jobs/run/explanations.ts';
import type { Condition } from '../../src/definition/conditions.ts';
import type { TraitValue } from '../../src/definition/definition.ts';
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
import { type History, membersOf, traitsOf, valuesOf } from '../definitions/helpers/reference.ts';
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
  columns: fc.constantFrom({}, { p: 'p' }, { dotted: 'c.d', mail: 'q' }),
});

t.test('computes random definitions over random histories as the law says, event by event', async (t) => {
  let triples = 0;
  let found = 0;
  let reasons = 0;
  const property = fc.asyncProperty(
    asked,
    async ({ events, steps, keep, short, committed, whens, values, columns }) => {
      const whole = whens.map((when) => inlined(when, () => short));
      const definitions = [
        ...whole.map((when, index): LiveDefinition => ({ key: `a${index}`, kind: 'audience', when, columns })),
        ...values.map((value, index): LiveDefinition => ({ key: `t${index}`, kind: 'trait', value })),
      ];
      const live = new LiveModel(askedOf(definitions, keep === null ? Number.POSITIVE_INFINITY : keep * DAY));
      const waiting = late(events);
      let known: LoggedEvent[] = [];
      let now = Number.NEGATIVE_INFINITY;
      let scores: Commit = {};
      let before: Answers = new Map();
      for (const [step, { size, pause }] of steps.entries()) {
        const news = waiting.splice(0, size);
        known.push(...news);
        now = Math.max(now + pause, ...news.map(({ receivedAt }) => receivedAt));
        if (now === Number.NEGATIVE_INFINITY) continue;
        const first = keep === null ? Number.NEGATIVE_INFINITY : dayNumber(now - keep * DAY);
        known = known.filter(({ receivedAt }) => dayNumber(receivedAt) >= first);
        const kept = keep === null ? {} : { keep: keep * DAY };
        const next = committed[step] ?? scores;
        const history = {
          ...{ events: known, now, ...kept, audiences: new Map<string, Condition>() },
          committed: { [SCORE.key]: next },
        };
        const answersOf = (events: readonly LoggedEvent[]) => answers(whole, values, columns, { ...history, events });
        const synced = between(scores, next);
        scores = next;
        const standings = await live.advance(news, now, first, synced);
        const after = answersOf(known);
        for (const { key } of definitions) same(Object.fromEntries(live.members.get(key) ?? []), after.get(key), key);
        // The state is built from events that are already there, which have no cause.
        const members = [...before].flatMap(([key, users]) =>
          Object.entries(users).map(([user, value]) => {
            const current = JSON.stringify(value);
            return { key, user, current, told: current, since: 1, cause: null, changedAt: null };
          }),
        );
        const changes = differences(standings, members, after, now);
        const withoutNews = answersOf(known.filter((event) => !news.includes(event)));
        for (const change of changes) checkReason(change, { before, after, withoutNews, news, synced });
        same(changes.map(({ key, user }) => `${key} ${user}`).toSorted(), changed(before, after), 'changes');
        reasons += changes.length;
        for (const index of whole.keys()) found += Object.keys(after.get(`a${index}`) ?? {}).length;
        before = after;
        triples += 10 * 7;
      }
    },
  );
  await fc.assert(property, { numRuns: RUNS });
  t.ok(found > 0, `${triples} answers about persons, ${found} of them members, ${reasons} changes`);
});

/** The value of each person by definition. */
type Answers = ReadonlyMap<string, Readonly<Record<string, unknown>>>;

function answers(
  whole: readonly Condition[],
  values: readonly TraitValue[],
  columns: Readonly<Record<string, string>>,
  history: History,
): Answers {
  const membersWithColumns = (when: Condition) =>
    membersOf(when, history).map((person) => {
      const said = traitsOf(person, Object.values(columns), history);
      const given = Object.entries(columns).filter(([, trait]) => Object.hasOwn(said, trait));
      return [person, given.length === 0 || Object.fromEntries(given.map(([name, trait]) => [name, said[trait]]))];
    });
  return new Map([
    ...whole.map((when, index) => [`a${index}`, Object.fromEntries(membersWithColumns(when))] as const),
    ...values.map((value, index) => [`t${index}`, valuesOf(value, history)] as const),
  ]);
}

/** `key user` of every value that is another. */
function changed(before: Answers, after: Answers): readonly string[] {
  return [...after]
    .flatMap(([key, users]) => {
      const old = before.get(key) ?? {};
      const all = new Set([...Object.keys(users), ...Object.keys(old)]);
      return [...all].flatMap((user) => (isDeepStrictEqual(users[user], old[user]) ? [] : `${key} ${user}`));
    })
    .toSorted();
}

/** An event of the step caused what would be otherwise without its events; without any, a commit or time did. */
function checkReason(
  change: Difference,
  {
    before,
    after,
    withoutNews,
    news,
    synced,
  }: {
    before: Answers;
    after: Answers;
    withoutNews: Answers;
    news: readonly LoggedEvent[];
    synced: readonly SyncedValue[];
  },
): void {
  const { key, user, current, told } = change;
  const valueIn = (answers: Answers) => answers.get(key)?.[user];
  const [was, is] = [valueIn(before), valueIn(after)];
  const { reason, cause } = liveExplanation({ present: current !== null, was: told !== null }, originOf(change), 0);
  const expected = is === undefined ? 'exited' : was === undefined ? 'entered' : 'changed';
  if (reason !== expected) throw new Error(`${key} ${user}: the reason is ${reason}, not ${expected}`);
  const isByEvent = cause !== null && 'messageId' in cause;
  if (isByEvent && !news.some(({ messageId }) => messageId === cause.messageId))
    throw new Error(`${key} ${user}: no event of this step is ${cause.messageId}`);
  const isByCommit = cause !== null && 'computed' in cause;
  if (isByCommit && (cause.computed !== SCORE.key || synced.length === 0))
    throw new Error(`${key} ${user}: nothing was committed in this step`);
  if (!isByEvent && !isByCommit && !(cause !== null && 'time' in cause))
    throw new Error(`${key} ${user}: nothing caused it`);
  const otherwise = valueIn(withoutNews);
  // An event may keep somebody a member whose columns time alone changed.
  const isKept = expected === 'changed' && otherwise === undefined;
  if (!isByEvent && !isByCommit && !isKept && !isDeepStrictEqual(otherwise, is))
    throw new Error(`${key} ${user}: an event caused it, not time`);
}

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
