import * as z from 'zod';
import type { Config } from '../../config/config.ts';
import type { Destination } from '../../destination.ts';
import { RollcallError } from '../../kernel/errors.ts';
import type { Store } from '../../store/port.ts';
import { destinationStatuses, dropDestination, goneDestination } from '../destinations.ts';
import { standingLine } from '../lines.ts';
import { standing } from './audience-shapes.ts';
import { listPaging, pageThrough } from './list.ts';
import { type ApiRoutes, ordering, reading } from './route.ts';
import { about, pageOf, time } from './shapes.ts';
import type { Syncing } from './sync.ts';

const destination = z.object({
  destination: z.string(),
  state: z.enum(['enabled', 'disabled', 'not configured']),
  processes: z.int().describe('Live processes that know it.'),
  pending: z.int(),
  dead: z.int(),
  heldOut: z.int(),
  unknownSince: time.nullable(),
  unknownFor: z.number(),
  removedAfter: z.number(),
  ...about,
});

const destinationDetail = destination.extend({
  definition: z
    .object({
      sources: z.array(z.string()),
      types: z.array(z.string()).nullable().describe('Null for all.'),
      events: z.array(z.string()).nullable(),
      audiences: z.array(z.string()).nullable(),
      require: z.enum(['any', 'all']),
      signing: z.string(),
      signed: z.boolean(),
      ratePerSecond: z.number().nullable(),
    })
    .nullable(),
  audiences: z.array(standing).describe('What it knows of each audience and trait.'),
});

interface ApiTestResult extends Omit<z.input<typeof testResult>, 'signatures'> {
  readonly signatures: readonly string[];
}

const testResult = z.object({
  destination: z.string(),
  endpoint: z.string(),
  url: z.string(),
  outcome: z.string(),
  status: z.int().nullable(),
  error: z.string().nullable(),
  ms: z.number(),
  signatures: z.array(z.string()).describe('Headers that sign the request.'),
  response: z.string().nullable(),
  advice: z.string().nullable().describe('How to mend it; null for success.'),
});

const params = z.object({ destination: z.string().describe('Its name.') });
/** The most deliveries that one request drops. */
const DROPPED = 10_000;
const tag = 'Endpoints';

export interface DestinationParts {
  readonly store: Pick<Store, 'time' | 'backlog' | 'orphans' | 'owners' | 'rosters' | 'bury'>;
  readonly config: () => Config;
  readonly sync: Pick<Syncing, 'standings'>;
  /** Configured destinations and alert hooks. */
  readonly destinations: () => readonly Destination[];
  /** Posts a test event to each endpoint of a destination, bypassing the queue. */
  readonly test: (destination: Destination) => Promise<readonly ApiTestResult[]>;
}

export function destinationRoutes(
  routes: ApiRoutes,
  { store, config, destinations, sync, test }: DestinationParts,
): void {
  const statuses = () => destinationStatuses(store, { delivery: config().delivery, destinations: destinations() });
  const configured = (name: string) => destinations().find((each) => each.name === name);
  reading(routes, '/destinations', {
    summary: 'Every destination that is configured, or that deliveries still wait for',
    tag,
    query: z.object(listPaging),
    answer: pageOf(destination),
    handle: async ({ query }) => pageThrough(await statuses(), (each) => each.destination, query),
  });
  reading(routes, '/destinations/:destination', {
    summary: 'One destination, and what it asks for',
    tag,
    params,
    answer: destinationDetail,
    handle: async ({ params: { destination: name } }) => {
      const found = (await statuses()).find((each) => each.destination === name);
      if (!found) throw new RollcallError('not_found', `There is no destination ${name}.`);
      const [standings, backlogs] = await Promise.all([sync.standings(), store.backlog()]);
      const audiences = standings
        .filter((each) => each.destination === name)
        .map((each) => standingLine(each, backlogs));
      return { ...found, definition: definitionOf(configured(name)), audiences };
    },
  });
  ordering(routes, '/destinations/:destination/drop', {
    summary: 'Give up what waits for a destination that is gone: it becomes dead letters `destination_removed`',
    description: `Refused while the configuration or a process that runs knows it. At most ${DROPPED} at once: ask again while there are more.`,
    tag,
    params,
    answer: z.object({ dropped: z.int(), more: z.boolean() }),
    deed: ({ params }) => ({ action: 'destination.drop', target: params.destination }),
    handle: async ({ params: { destination: name } }) => {
      goneDestination(await statuses(), name);
      const dropped = await dropDestination(store, name, DROPPED);
      return { dropped, more: dropped === DROPPED };
    },
  });
  ordering(routes, '/destinations/:destination/test', {
    summary: 'Post a signed test event to each endpoint of a destination, past the queue',
    tag,
    params,
    answer: z.object({ data: z.array(testResult) }),
    deed: ({ params }) => ({ action: 'destination.test', target: params.destination }),
    handle: async ({ params: { destination: name } }) => {
      const found = configured(name);
      if (!found) throw new RollcallError('not_found', `There is no destination ${name}.`);
      return { data: [...(await test(found))] };
    },
  });
}

function definitionOf(found: Destination | undefined): z.input<typeof destinationDetail>['definition'] {
  if (!found) return null;
  const { sources, wants, require, signing = 'x-signature', secrets, ratePerSecond } = found;
  return {
    sources: [...sources],
    types: wants?.types ? [...wants.types] : null,
    events: wants?.events ? [...wants.events] : null,
    audiences: wants?.audiences ? [...wants.audiences] : null,
    require,
    signing,
    signed: secrets.length > 0,
    ratePerSecond,
  };
}
