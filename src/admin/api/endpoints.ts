import * as z from 'zod';
import type { Destination } from '../../destination.ts';
import { RollcallError } from '../../kernel/errors.ts';
import type { Store } from '../../store/port.ts';
import { type EndpointStatus, endpointStatuses, pauseEndpoints, resumeEndpoints } from '../endpoints.ts';
import { listPaging, pageThrough } from './list.ts';
import { type ApiRoutes, ordering, reading } from './route.ts';
import { pageOf, time } from './shapes.ts';

const STATES = ['open', 'dead', 'refusing', 'paused', 'disabled'] as const;

const endpoint = z.object({
  destination: z.string(),
  endpoint: z.string().describe('Its id.'),
  url: z.string().describe('Without user, password and query.'),
  state: z.enum(STATES),
  since: time.nullable().describe('Since when it is so, unless it is open.'),
  cause: z
    .string()
    .nullable()
    .describe('Of a dead one: what its last request failed with when it died, such as `status_500` or `ECONNREFUSED`.'),
  answer: z.string().nullable().describe('The beginning of its answer then; null if it did not answer.'),
  pending: z.int().describe('Deliveries of its destination neither delivered nor dead.'),
  dead: z.int().describe('Dead letters of its destination, those held out included.'),
  heldOut: z.int().describe('Dead letters `queue_full`, which are queued again automatically.'),
});

const endpointDetail = endpoint.extend({
  window: z
    .object({ size: z.int(), inFlight: z.int() })
    .nullable()
    .describe(
      'Requests that may be in flight, and are, in the process that answers; null where it posts nothing there.',
    ),
});

const params = z.object({ endpoint: z.string().describe('Its id.') });
const tag = 'Endpoints';

export interface EndpointParts {
  readonly store: Pick<Store, 'time' | 'backlog' | 'endpoints' | 'markEndpoint'>;
  /** Configured destinations and alert hooks. */
  readonly destinations: () => readonly Destination[];
  /** The endpoint's window in the process that answers. */
  readonly windowOf: (
    destination: string,
    endpoint: string,
  ) => { readonly size: number; readonly inFlight: number } | null;
}

export function endpointRoutes(routes: ApiRoutes, { store, destinations, windowOf }: EndpointParts): void {
  const statuses = () => endpointStatuses(store, destinations());
  const one = async (id: string): Promise<EndpointStatus> => {
    const found = (await statuses()).find((status) => status.endpoint === id);
    if (!found) throw new RollcallError('not_found', `There is no endpoint ${id}.`);
    return found;
  };
  reading(routes, '/endpoints', {
    summary: 'Every URL that is posted to, and its state',
    tag,
    query: z.object({ ...listPaging, destination: z.string().optional(), state: z.enum(STATES).optional() }),
    answer: pageOf(endpoint),
    handle: async ({ query: { destination, state, ...page } }) => {
      const all = await statuses();
      const isWanted = (each: EndpointStatus) =>
        (destination === undefined || each.destination === destination) &&
        (state === undefined || each.state === state);
      return pageThrough(all.filter(isWanted), (each) => each.endpoint, page);
    },
  });
  reading(routes, '/endpoints/:endpoint', {
    summary: 'One endpoint',
    tag,
    params,
    answer: endpointDetail,
    handle: async ({ params }) => {
      const found = await one(params.endpoint);
      return { ...found, window: windowOf(found.destination, found.endpoint) };
    },
  });
  for (const [action, summary, apply] of [
    ['resume', 'Post again to an endpoint that is paused, refusing or dead', resumeEndpoints],
    ['pause', 'Hold back everything for an endpoint until it is resumed', pauseEndpoints],
  ] as const) {
    ordering(routes, `/endpoints/:endpoint/${action}`, {
      summary,
      tag,
      params,
      answer: endpoint,
      deed: ({ params }) => ({ action: `endpoint.${action}`, target: params.endpoint }),
      handle: async ({ params: { endpoint: id } }) => {
        await one(id);
        await apply(store, destinations(), [id]);
        return one(id);
      },
    });
  }
}
