import type { Config } from './config.ts';
import { logWarnings } from './event-log.ts';
import type { Mistake } from './mistakes.ts';

/** Traits that receivers know as something about the person: an audience of this key overwrites it. */
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

/** Warns of things that are allowed, and most likely not meant. */
export function warningsOf(config: Omit<Config, 'warnings'>): readonly Mistake[] {
  return [...personalKeys(config), ...logWarnings(config)];
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
