import type * as z from 'zod';
import { definitionHash, writtenSentence } from '../../../jobs/index.ts';
import type { AudienceConfig, Config, TraitConfig } from '../../config/config.ts';
import type { Clock } from '../../kernel/clock.ts';
import { RollcallError } from '../../kernel/errors.ts';
import { nothingNamed } from '../../kernel/spelling.ts';
import { toYaml } from '../../kernel/yaml.ts';
import type { Records } from '../../store/port.ts';
import { audienceLine, planLine, standingLine, storyLine } from '../lines.ts';
import {
  asOf,
  audience,
  type definition,
  details,
  listQuery,
  member,
  memberQuery,
  audienceParams as params,
  plan,
  story,
  storyQuery,
  audienceTag as tag,
} from './audience-shapes.ts';
import { pageThrough } from './list.ts';
import { type ApiRoutes, reading } from './route.ts';
import { cursorOf, pageOf, placeAfter, userOf } from './shapes.ts';
import type { Syncing } from './sync.ts';

export interface AudienceParts {
  readonly sync: Syncing;
  readonly config: () => Config;
  readonly store: Pick<Records, 'pausedAudiences' | 'pauseAudience' | 'resumeAudience' | 'backlog'>;
  readonly clock: Pick<Clock, 'now'>;
}

export function audienceRoutes(routes: ApiRoutes, parts: AudienceParts): void {
  const { sync } = parts;
  reading(routes, '/audiences', {
    summary: 'Audiences and computed traits, as configured, then those that are gone from the configuration',
    tag,
    query: listQuery,
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
    handle: ({ params: { key } }) => audienceDetails(parts, key),
  });
  reading(routes, '/audiences/:key/members', {
    summary: 'Members as last synced',
    description: 'In the order of their ids, as bytes.',
    tag,
    params,
    query: memberQuery,
    answer: pageOf(member),
    engine: 'look',
    handle: async ({ params: { key }, query: { limit, cursor }, request: { signal } }) => {
      const { userIds, values } = await sync.memberPage(key, userOf(cursor), limit + 1, signal);
      const data = userIds.slice(0, limit).map((userId, row) => {
        const value = values[row] ?? null;
        return { userId, ...(value === null ? {} : { traits: JSON.parse(value) }) };
      });
      return { data, next: userIds.length > limit ? cursorOf(placeAfter(data.at(-1)?.userId ?? '')) : null };
    },
  });
  reading(routes, '/audiences/:key/why', {
    summary: "One user's story: each change, its cause, and how each destination got it",
    tag,
    params,
    query: storyQuery,
    answer: story,
    engine: 'look',
    handle: async ({ params: { key }, query: { user, at }, request: { signal } }) =>
      storyLine(await sync.why(key, user, { at, signal })),
  });
  reading(routes, '/audiences/:key/plan', {
    summary: 'The changes that a sync would send; writes nothing',
    tag,
    params,
    query: asOf,
    answer: plan,
    engine: 'plan',
    handle: async ({ params: { key }, query: { now }, request: { signal } }) => {
      const [made] = await sync.plan([key], { now, signal });
      if (!made) throw unknownAudience(key, keysOf(parts.config()));
      return planLine(made);
    },
  });
}

/** @throws RollcallError `unknown_audience` */
export async function oneAudience(sync: Syncing, key: string) {
  const all = await sync.audiences();
  const found = all.find((each) => each.key === key);
  if (!found)
    throw unknownAudience(
      key,
      all.map((each) => each.key),
    );
  return found;
}

/** @throws RollcallError `unknown_audience` */
export async function audienceDetails({ sync, config, store }: AudienceParts, key: string) {
  const audience = audienceLine(await oneAudience(sync, key));
  const [standings, backlogs] = await Promise.all([sync.standings(), store.backlog()]);
  const destinations = standings.filter((each) => each.key === key).map((each) => standingLine(each, backlogs));
  return { ...audience, definition: definitionOf(key, config()), destinations };
}

const unknownAudience = (key: string, known: readonly string[]) =>
  new RollcallError('unknown_audience', nothingNamed('audience or trait', [key], known));

const keysOf = ({ audiences, traits }: Config) => [...audiences, ...traits].map(({ key }) => key);

/** @throws RollcallError `unknown_audience` */
export function configuredAudience(key: string, config: Config): AudienceConfig | TraitConfig {
  const found = find(key, config);
  if (!found) throw unknownAudience(key, keysOf(config));
  return found;
}

const find = (key: string, { audiences, traits }: Config): AudienceConfig | TraitConfig | undefined =>
  [...audiences, ...traits].find((each) => each.key === key);

const NOT_WRITTEN = { language: 'sql', text: '', section: 'audiences', item: {} } as const;

/** The text is that of the file, since values of its variables may be secrets. */
function definitionOf(key: string, config: Config): z.input<typeof definition> | null {
  const found = find(key, config);
  if (!found) return null;
  const { name, timezone, timeout, guard, source } = found;
  const destinations = config.destinations
    .filter(({ sources, wants }) => sources.includes(source) && (wants?.audiences?.includes(key) ?? true))
    .map((destination) => destination.name);
  const written = config.written.get(key) ?? NOT_WRITTEN;
  const { language, text, section, item } = written;
  const yaml = toYaml({ [section]: [item] });
  const said = { version: definitionHash(found), sentence: writtenSentence(written) };
  return { name, timezone, timeout, guard, destinations, language, text, yaml, ...said };
}
