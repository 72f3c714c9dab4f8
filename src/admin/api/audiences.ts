import * as z from 'zod';
import type { Clock } from '../../clock.ts';
import type { AudienceConfig, Config, TraitConfig } from '../../config/config.ts';
import { RollcallError } from '../../errors.ts';
import type { Store } from '../../store/port.ts';
import { audienceLine, planLine, storyLine } from '../lines.ts';
import { listPaging, pageThrough } from './list.ts';
import { type ApiRoutes, ordering, reading } from './route.ts';
import { cursorOf, instant, pageOf, paging, pagingByUser, placeAfter, time, userOf } from './shapes.ts';
import { answerReport, report, type Syncing, waiting } from './sync.ts';

const todo = z.discriminatedUnion('do', [
  z.object({ do: z.literal('decide'), run: z.string(), reason: z.string() }),
  z.object({
    do: z.literal('repair'),
    run: z.string().describe('The last that failed.'),
    code: z.string(),
    reason: z.string(),
    since: time.describe('When the first of the failures in a row began.'),
  }),
  z.object({ do: z.literal('retire') }),
]);

const pause = z.object({ since: time, by: z.string() }).nullable();

const audience = z.object({
  key: z.string(),
  kind: z.enum(['audience', 'trait']),
  engine: z.string(),
  source: z.string(),
  state: z.enum(['ok', 'new', 'held', 'failed', 'unfinished', 'paused', 'orphaned']),
  members: z.int().nullable().describe('After the last run that was done; null before the first.'),
  trend: z.array(z.int()).describe('Members after each of the last runs, oldest first.'),
  lastRun: z
    .object({
      run: z.string(),
      state: z.string(),
      action: z.string(),
      startedAt: time,
      ms: z.number().nullable(),
      code: z.string().nullable(),
      reason: z.string().nullable(),
    })
    .nullable(),
  schedule: z.string().nullable(),
  nextRunAt: time.nullable(),
  paused: pause.describe('By a person; null where the configuration pauses it, too.'),
  overdueSince: time
    .nullable()
    .describe('The tick that was due when nothing began; of a live one, since when it has been behind.'),
  live: z
    .object({
      lag: z.number().nullable().describe('Milliseconds that it is behind; null while it has yet to be computed.'),
      ids: z.int().describe('Ids of which something is kept.'),
      due: z.int().describe('People for whom something may change by time alone.'),
      hold: z.string().nullable().describe('Why nothing is sent as it is computed.'),
    })
    .nullable()
    .describe('Null for what is not live.'),
  todo: todo.nullable().describe('What a person has to do.'),
});

const threshold = z.union([z.object({ count: z.number() }), z.object({ percent: z.number() })]).nullable();

const definition = z.object({
  name: z.string(),
  timezone: z.string().nullable(),
  timeout: z.number().describe('Milliseconds.'),
  guard: z.object({
    maxExits: threshold,
    maxEntries: threshold,
    minMembers: z.int(),
    allowEmpty: z.boolean(),
  }),
  destinations: z.array(z.string()).describe('Those that hear of it.'),
});

const details = audience.extend({ definition: definition.nullable() });

const plan = z.object({
  key: z.string(),
  kind: z.enum(['audience', 'trait']),
  first: z.boolean(),
  before: z.int(),
  members: z.int(),
  entered: z.int(),
  exited: z.int(),
  changed: z.int(),
  invalid: z.int(),
  duplicates: z.int(),
  messages: z.int(),
  destinations: z.array(z.string()),
  newcomers: z.array(z.string()),
  returning: z.array(z.string()),
  withdrawn: z.array(z.string()),
  filtered: z.array(z.string()),
  away: z.array(z.string()),
  calls: z.int().describe('POSTs, one per message and URL.'),
  estimatedMs: z.number().nullable(),
  held: z.string().nullable().describe('Why a guard or an expectation would hold it.'),
  renamedFrom: z.string().nullable(),
  retired: z.int(),
  paused: pause.describe('By a person: until they resume it, a sync passes over it.'),
  unfinished: z.array(z.object({ run: z.string(), state: z.string(), reason: z.string().nullable() })),
  sample: z.array(z.unknown()).describe('Bodies as they would be sent.'),
});

const member = z.object({ userId: z.string(), traits: z.unknown().optional() });
const story = z.looseObject({
  key: z.string(),
  user: z.string(),
  asOf: time.nullable(),
  member: z.boolean().nullable().describe('Null where nobody knows any more.'),
  value: z.unknown(),
  changes: z.array(z.looseObject({ change: z.string(), at: time.nullable(), run: z.string().nullable() })),
  unfinished: z.array(z.unknown()),
  attempts: z.array(z.unknown()),
  deadLetters: z.array(z.unknown()),
});

const params = z.object({ key: z.string().describe('Of an audience or computed trait.') });
const asOf = z.object({ now: instant.optional().describe("The run's time; without it, now.") });
const tag = 'Audiences';

export interface AudienceParts {
  readonly sync: Syncing;
  readonly config: () => Config;
  readonly store: Pick<Store, 'pausedAudiences' | 'pauseAudience' | 'resumeAudience'>;
  readonly clock: Pick<Clock, 'now'>;
}

export function audienceRoutes(routes: ApiRoutes, { sync, config, store, clock }: AudienceParts): void {
  const one = async (key: string) => {
    const found = (await sync.audiences()).find((each) => each.key === key);
    if (!found) throw unknownAudience(key);
    return found;
  };
  const detail = async (key: string) => ({ ...audienceLine(await one(key)), definition: definitionOf(key, config()) });
  /** @throws RollcallError `audience_paused` */
  const refusePaused = async ({ key, paused }: AudienceConfig | TraitConfig) => {
    if (paused || (await store.pausedAudiences()).some((pause) => pause.key === key))
      throw new RollcallError('audience_paused', `${key} is paused: resume it before it is synced.`);
  };
  reading(routes, '/audiences', {
    summary: 'Audiences and computed traits, as configured, then those that are gone from the configuration',
    tag,
    query: z.object({ ...listPaging, limit: paging.limit, state: audience.shape.state.optional() }),
    answer: pageOf(audience),
    handle: async ({ query: { state, ...page } }) => {
      const all = (await sync.audiences()).filter((each) => state === undefined || each.state === state);
      const { data, next } = pageThrough(all, ({ key }) => key, page);
      return { data: data.map(audienceLine), next };
    },
  });
  reading(routes, '/audiences/:key', {
    summary: 'One audience or computed trait',
    tag,
    params,
    answer: details,
    handle: ({ params: { key } }) => detail(key),
  });
  reading(routes, '/audiences/:key/members', {
    summary: 'Members as last synced',
    description: 'In the order of their ids, as bytes.',
    tag,
    params,
    query: z.object(pagingByUser),
    answer: pageOf(member),
    handle: async ({ params: { key }, query: { limit, cursor } }) => {
      const { userIds, values } = await sync.memberPage(key, userOf(cursor), limit + 1);
      const data = userIds.slice(0, limit).map((userId, row) => {
        const value = values[row] ?? null;
        return { userId, ...(value === null ? {} : { traits: JSON.parse(value) }) };
      });
      return { data, next: userIds.length > limit ? cursorOf(placeAfter(data.at(-1)?.userId ?? '')) : null };
    },
  });
  reading(routes, '/audiences/:key/why', {
    summary: "One user's story: each change, what made it, and how each destination was told",
    tag,
    params,
    query: z.object({ user: z.string().min(1), at: instant.optional().describe('As it was then.') }),
    answer: story,
    handle: async ({ params: { key }, query: { user, at } }) => storyLine(await sync.why(key, user, { at })),
  });
  reading(routes, '/audiences/:key/plan', {
    summary: 'What a sync would send; writes nothing',
    tag,
    params,
    query: asOf,
    answer: plan,
    handle: async ({ params: { key }, query: { now } }) => {
      const [made] = await sync.plan([key], { now });
      if (!made) throw unknownAudience(key);
      return planLine(made);
    },
  });
  ordering(routes, '/audiences/:key/sync', {
    summary: 'Sync it now',
    description:
      'With `wait=true` the answer comes when the run is over: 200, 409 `run_held` where a person has to decide, or the status of the failure.',
    tag,
    params,
    query: waiting,
    body: asOf,
    answer: report,
    deed: ({ params }) => ({ action: 'audience.sync', target: params.key }),
    handle: async ({ params: { key }, body: { now }, query: { wait }, reply }) => {
      const found = configOf(key, config());
      if (!found) throw unknownAudience(key);
      await refusePaused(found);
      return answerReport(sync, async () => only(await sync.run([key], { now })), wait, reply);
    },
  });
  for (const action of ['pause', 'resume'] as const) {
    ordering(routes, `/audiences/:key/${action}`, {
      summary:
        action === 'pause' ? 'Have nothing sync it until it is resumed' : 'Have it synced again, from its next tick on',
      tag,
      params,
      answer: details,
      deed: ({ params }) => ({ action: `audience.${action}`, target: params.key }),
      handle: async ({ params: { key }, caller }) => {
        if (!configOf(key, config())) throw unknownAudience(key);
        if (action === 'pause') await store.pauseAudience({ key, at: clock.now(), by: caller.name });
        else await store.resumeAudience(key);
        return detail(key);
      },
    });
  }
  for (const action of ['resync', 'retire'] as const) {
    ordering(routes, `/audiences/:key/${action}`, {
      summary: action === 'resync' ? 'Send the whole membership again' : 'Send false to every member, and forget it',
      tag,
      params,
      query: waiting,
      answer: report,
      deed: ({ params }) => ({ action: `audience.${action}`, target: params.key }),
      handle: async ({ params: { key }, query: { wait }, reply }) => {
        await one(key);
        return answerReport(sync, () => sync[action](key), wait, reply);
      },
    });
  }
}

function only<T>(reports: readonly T[]): T {
  const [report] = reports;
  if (report === undefined) throw new RollcallError('unknown_audience', 'There is no such audience or trait.');
  return report;
}

const unknownAudience = (key: string) => new RollcallError('unknown_audience', `There is no audience or trait ${key}.`);

const configOf = (key: string, { audiences, traits }: Config): AudienceConfig | TraitConfig | undefined =>
  [...audiences, ...traits].find((each) => each.key === key);

/** Without its SQL, into which the configuration may have put secrets. */
function definitionOf(key: string, config: Config): z.input<typeof definition> | null {
  const found = configOf(key, config);
  if (!found) return null;
  const { name, timezone, timeout, guard, source } = found;
  const destinations = config.destinations
    .filter(({ sources, wants }) => sources.includes(source) && (wants?.audiences?.includes(key) ?? true))
    .map((destination) => destination.name);
  return { name, timezone, timeout, guard, destinations };
}
