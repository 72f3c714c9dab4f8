import { userInfo } from 'node:os';
import type { App } from '../app.ts';

interface Deed {
  readonly action: string;
  readonly target: string | null;
}

/** Do the work in the name of the machine's user, and record it in the audit log. */
export function asUser<T>(
  { audit }: Pick<App, 'audit'>,
  { action, target }: Deed,
  work: () => Promise<T>,
  outcomeOf?: (result: T) => string,
): Promise<T> {
  return audit.during({ who: cliUser(), action, target }, work, outcomeOf);
}

export const cliUser = (): string => `cli:${userName()}`;

/** A user of a container may have no name. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return 'unknown';
  }
}
