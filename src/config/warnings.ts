import type { Config } from './config.ts';
import { logWarnings } from './event-log.ts';
import type { Mistake } from './mistakes.ts';

/** Keys that receivers use for a person's own traits, which an audience with this key would overwrite. */
const PERSONAL = new Set(
  [
    ...[
      'address',
      'age',
      'avatar',
      'birthday',
      'company',
      'created_at',
      'createdAt',
      'description',
      'email',
      'first_name',
    ],
    ...['firstName', 'gender', 'id', 'last_name', 'lastName', 'name', 'phone', 'title', 'username', 'website'],
    ...['anonymous_id', 'anonymousId', 'user_id', 'userId'],
  ].map((key) => key.toLowerCase()),
);

/** Warns of settings that are allowed but probably mistakes. */
export function warningsOf(config: Omit<Config, 'warnings'>): readonly Mistake[] {
  return [...personalKeys(config), ...idleFilters(config), ...logWarnings(config)];
}

function personalKeys(config: Pick<Config, 'audiences' | 'traits'>): readonly Mistake[] {
  return (['audiences', 'traits'] as const).flatMap((section) =>
    config[section].flatMap(({ key }, index) => {
      if (!PERSONAL.has(key.toLowerCase())) return [];
      const message = `gives the key ${key}, which receivers take for a person's own trait. Set another key unless it is meant`;
      return [{ path: [section, index], message }];
    }),
  );
}

/** Parts of filters without effect, because something else already excludes their messages. */
function idleFilters({ destinations, audiences, traits }: Pick<Config, 'destinations' | 'audiences' | 'traits'>) {
  const sourceOf = new Map([...audiences, ...traits].map(({ key, source }) => [key, source]));
  return destinations.flatMap(({ sources, wants = {} }, index): readonly Mistake[] => {
    const { types, events = [], audiences: keys = [] } = wants;
    const of = (part: string, message: string) => ({ path: ['destinations', index, part], message });
    const keysOf = [...Map.groupBy(keys, (key) => sourceOf.get(key) ?? '')];
    return [
      ...(events.length > 0 && types && !types.includes('track') ? [of('events', NO_TRACK)] : []),
      ...(keys.length > 0 && types && !types.includes('identify') ? [of('audiences', NO_IDENTIFY)] : []),
      ...keysOf.flatMap(([source, named]) =>
        sources.includes(source) ? [] : [of('audiences', unconnected(named, source))],
      ),
    ];
  });
}

const NO_TRACK = 'has no effect: types is without track';
const NO_IDENTIFY = 'has no effect: types is without identify, as which audiences and traits are sent';
const unconnected = (keys: readonly string[], source: string) =>
  `names ${keys.join(', ')}, but the destination is not connected to ${source}, as which they are sent`;
