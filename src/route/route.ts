import type { Destination } from '../destination.ts';
import type { Message } from '../message.ts';
import type { MessageType } from '../message-types.ts';

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

/** The parts of a message that routing looks at. */
type Routed = Pick<Message, 'type' | 'event' | 'integrations'>;

/** Routes the messages of one source; messages that differ in nothing that matters share one list of names. */
export function createRouter(
  source: string,
  destinations: readonly Destination[],
): (message: Routed) => readonly string[] {
  const eligible = route(source, null, destinations);
  const everywhere = namesOf(eligible);
  const wanted = eligible.some(({ wants }) => wants?.types || wants?.events) ? createSieve(eligible) : () => everywhere;
  return ({ type, event, integrations }) => {
    const names = wanted(type, event);
    if (integrations === null || integrationEnabled(integrations)) return names;
    return [];
  };
}

/** The names of those that want a message, by its kind and event. */
function createSieve(destinations: readonly Destination[]): (type: MessageType, event?: string) => readonly string[] {
  const known = new Map<string, readonly string[]>();
  return (type, event) => {
    const sort = event === undefined ? type : `${type} ${event}`;
    const names = known.get(sort) ?? namesOf(destinations.filter((each) => isWanted(each, type, event)));
    known.set(sort, names);
    return names;
  };
}

function isWanted({ wants }: Destination, type: MessageType, event?: string): boolean {
  if (wants?.types && !wants.types.includes(type)) return false;
  return type !== 'track' || (wants?.events?.includes(event ?? '') ?? true);
}

const namesOf = (destinations: readonly Destination[]) => destinations.map(({ name }) => name);

function integrationEnabled(integrations: Readonly<Record<string, unknown>> | null): boolean {
  if (integrations === null) return true;
  const named = Object.hasOwn(integrations, INTEGRATION_NAME) ? integrations[INTEGRATION_NAME] : undefined;
  if (named === false) return false;
  if (named === true || (typeof named === 'object' && named !== null)) return true;
  return !['All', 'all'].some((name) => Object.hasOwn(integrations, name) && integrations[name] === false);
}
