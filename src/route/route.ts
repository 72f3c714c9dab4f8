import type { Destination } from '../destination.ts';

/** The name under which the integrations object speaks of this kind of destination. */
export const INTEGRATION_NAME = 'Webhooks';

/**
 * The destinations that a message of this source goes to.
 *
 * Keys of the integrations object are case sensitive: `Webhooks: false` disables, `true` or an object
 * enables; `All: false` disables what is not enabled by name. Libraries write `all` as well; where both are given and one
 * is false, it is false.
 */
export function route(
  source: string,
  integrations: Readonly<Record<string, unknown>> | null,
  destinations: readonly Destination[],
): readonly Destination[] {
  if (!integrationEnabled(integrations)) return [];
  return destinations.filter((destination) => destination.enabled && destination.sources.includes(source));
}

function integrationEnabled(integrations: Readonly<Record<string, unknown>> | null): boolean {
  if (integrations === null) return true;
  const named = Object.hasOwn(integrations, INTEGRATION_NAME) ? integrations[INTEGRATION_NAME] : undefined;
  if (named === false) return false;
  if (named === true || (typeof named === 'object' && named !== null)) return true;
  return !['All', 'all'].some((name) => Object.hasOwn(integrations, name) && integrations[name] === false);
}
