import type { Config } from '../config/config.ts';
import { count } from './output/terminal.ts';

/** Keys of audiences and traits for which no guard is written. */
export function withDefaultGuard({ audiences, traits }: Config): readonly string[] {
  return [...audiences, ...traits].filter(({ guard }) => guard.isDefault).map(({ key }) => key);
}

export function describeDefaultGuard(config: Config): string | null {
  const keys = withDefaultGuard(config);
  if (keys.length === 0) return null;
  const named = keys.length > 3 ? count(keys.length, 'audience or trait', 'audiences and traits') : keys.join(', ');
  return `No guard is set for ${named}: runs that remove more than half of 100 members or more are held.`;
}
