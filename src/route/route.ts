import type { Destination } from '../destination.ts';
import type { Message } from '../message.ts';
import type { MessageType } from '../message-types.ts';

/** Key of this kind of destination in the integrations object. */
export const INTEGRATION_NAME = 'Webhooks';

/**
 * Finds the destinations that a message of this source goes to.
 *
 * Keys of the integrations object are case sensitive: `Webhooks: false` disables, `true` or an object enables; `All:
 * false` disables everything not enabled by name. Libraries also write `all`; if both are given and one is false, it is
 * false.
 */
export function route(
  source: string,
  integrations: Readonly<Record<string, unknown>> | null,
  destinations: readonly Destination[],
): readonly Destination[] {
  if (!integrationEnabled(integrations)) return [];
  return destinations.filter((destination) => destination.enabled && destination.sources.includes(source));
}

type Routed = Pick<Message, 'type' | 'event' | 'integrations'>;

type Router = (message: Routed) => readonly string[];

const NOWHERE: readonly string[] = [];
/** Limit of cached lists, since clients choose event names. */
const MOST_SORTS = 1_000;

/**
 * Returns the router of a source, cached until the list of destinations changes: messages of several requests then
 * share their lists of names, and a list costs as much to hand to the store as a message.
 */
export function createRouters(destinations: () => readonly Destination[]): (source: string) => Router {
  let current: readonly Destination[] | null = null;
  const routers = new Map<string, Router>();
  return (source) => {
    const list = destinations();
    if (list !== current) routers.clear();
    current = list;
    let router = routers.get(source);
    if (router === undefined) {
      router = createRouter(source, list);
      routers.set(source, router);
    }
    return router;
  };
}

/** Routes the messages of one source; messages that differ in nothing relevant share one list of names. */
function createRouter(source: string, destinations: readonly Destination[]): Router {
  const eligible = route(source, null, destinations);
  const everywhere = namesOf(eligible);
  const wanted = eligible.some(({ wants }) => wants?.types || wants?.events) ? createSieve(eligible) : () => everywhere;
  return ({ type, event, integrations }) => {
    const names = wanted(type, event);
    if (integrations === null || integrationEnabled(integrations)) return names;
    return NOWHERE;
  };
}

/** Names of the destinations that want a message, by type and event. */
function createSieve(destinations: readonly Destination[]): (type: MessageType, event?: string) => readonly string[] {
  const known = new Map<string, readonly string[]>();
  return (type, event) => {
    const sort = event === undefined ? type : `${type} ${event}`;
    let names = known.get(sort);
    if (names === undefined) {
      if (known.size === MOST_SORTS) known.clear();
      names = namesOf(destinations.filter((each) => isWanted(each, type, event)));
      known.set(sort, names);
    }
    return names;
  };
}

function isWanted({ wants }: Destination, type: MessageType, event?: string): boolean {
  if (wants?.types && !wants.types.includes(type)) return false;
  return type !== 'track' || (wants?.events?.includes(event ?? '') ?? true);
}

const namesOf = (destinations: readonly Destination[]) => destinations.map(({ name }) => name);

/** True if the integrations object of a message lets it go to destinations of this kind. */
export function integrationEnabled(integrations: Readonly<Record<string, unknown>> | null): boolean {
  if (integrations === null) return true;
  const named = Object.hasOwn(integrations, INTEGRATION_NAME) ? integrations[INTEGRATION_NAME] : undefined;
  if (named === false) return false;
  if (named === true || (typeof named === 'object' && named !== null)) return true;
  return !['All', 'all'].some((name) => Object.hasOwn(integrations, name) && integrations[name] === false);
}
