import { type Destination, shownUrl } from '../destination.ts';
import { RollcallError } from '../kernel/errors.ts';
import { nothingNamed } from '../kernel/spelling.ts';
import { type Backlog, type EndpointState, type Store, whyClosed } from '../store/port.ts';

export interface EndpointStatus {
  readonly destination: string;
  readonly endpoint: string;
  /** The URL without user, password and query. */
  readonly url: string;
  readonly state: 'open' | 'dead' | 'refusing' | 'paused' | 'disabled';
  readonly since: string | null;
  /** For a dead one: what its last request failed with when it died, such as `status_500` or `ECONNREFUSED`. */
  readonly cause: string | null;
  /** The beginning of its answer then. */
  readonly answer: string | null;
  readonly pending: number;
  /** Dead letters, including those held out. */
  readonly dead: number;
  /** Dead letters `queue_full`, which are queued again automatically. */
  readonly heldOut: number;
}

export async function endpointStatuses(
  store: Pick<Store, 'time' | 'backlog' | 'endpoints'>,
  destinations: readonly Destination[],
): Promise<EndpointStatus[]> {
  return statusesOf(store, destinations, ...(await Promise.all([store.endpoints(), store.backlog()])));
}

export function statusesOf(
  store: Pick<Store, 'time'>,
  destinations: readonly Destination[],
  known: readonly EndpointState[],
  counted: readonly Backlog[],
): EndpointStatus[] {
  const states = new Map(known.map((state) => [state.endpoint, state]));
  const backlogs = new Map(counted.map((backlog) => [backlog.destination, backlog]));
  return destinations.flatMap(({ name, enabled, endpoints }) =>
    endpoints.map((endpoint) => {
      const { id } = endpoint;
      const state = states.get(id) ?? ordinary(id, name);
      const backlog = backlogs.get(name);
      const since = state.pausedAt ?? state.refusal?.since ?? state.deadSince;
      return {
        destination: name,
        endpoint: id,
        url: shownUrl(endpoint),
        state: enabled ? whyClosed(state) : 'disabled',
        ...(enabled && whyClosed(state) === 'dead' ? deathOf(state) : { cause: null, answer: null }),
        since: since === null ? null : new Date(store.time.toWall(since)).toISOString(),
        pending: backlog?.pending ?? 0,
        dead: backlog?.dead ?? 0,
        heldOut: backlog?.heldOut ?? 0,
      } as const;
    }),
  );
}

const deathOf = ({ deadCause = null, deadAnswer = null }: EndpointState) => ({ cause: deadCause, answer: deadAnswer });

/** Describes a dead endpoint: most do not answer, some answer with an error. */
export function failing({ cause, url, answer }: Pick<EndpointStatus, 'cause' | 'url' | 'answer'>): string {
  if (!cause?.startsWith('status_')) return `does not answer${cause === null ? '' : ` (${cause})`} at ${url}`;
  const said = answer === null ? '' : `: ${answer.replace(/\.$/, '')}`;
  return `answers ${cause.slice('status_'.length)} to everything at ${url}${said}`;
}

/** An endpoint that was to be resumed. `resumed` is false if it was open already. */
interface Resumed {
  readonly endpoint: string;
  readonly destination: string;
  readonly was: EndpointStatus['state'];
  readonly resumed: boolean;
}

/**
 * Resume endpoints that are paused, refusing or dead. A running service posts to them within seconds. An unknown name
 * resumes none.
 *
 * @param names - of endpoints or destinations
 * @throws RollcallError `bad_usage`
 */
export async function resumeEndpoints(
  store: Pick<Store, 'time' | 'backlog' | 'endpoints' | 'markEndpoint'>,
  destinations: readonly Destination[],
  names: readonly string[],
): Promise<readonly Resumed[]> {
  const named = namedBy(names, await endpointStatuses(store, destinations));
  const refusals = new Map((await store.endpoints()).map(({ endpoint, refusal }) => [endpoint, refusal]));
  const all: Resumed[] = [];
  for (const { endpoint, destination, state } of named) {
    // A disabled endpoint may be paused too.
    const resumed = state !== 'open';
    // Keep the refusal, so that refused messages are requeued once the endpoint accepts one.
    const refusal = refusals.get(endpoint);
    const owed = refusal ? { refusal: { ...refusal, since: null } } : {};
    if (resumed) await store.markEndpoint({ ...ordinary(endpoint, destination), ...owed });
    all.push({ endpoint, destination, was: state, resumed });
  }
  return all;
}

/**
 * Hold back everything for these endpoints until a person resumes them, as a 410 does.
 *
 * @throws RollcallError `bad_usage`
 */
export async function pauseEndpoints(
  store: Pick<Store, 'time' | 'backlog' | 'endpoints' | 'markEndpoint'>,
  destinations: readonly Destination[],
  names: readonly string[],
): Promise<readonly EndpointStatus[]> {
  const named = namedBy(names, await endpointStatuses(store, destinations));
  const states = new Map((await store.endpoints()).map((state) => [state.endpoint, state]));
  for (const { endpoint, destination } of named) {
    const state = states.get(endpoint) ?? ordinary(endpoint, destination);
    if (state.pausedAt === null) await store.markEndpoint({ ...state, pausedAt: store.time.now() });
  }
  return named;
}

const ordinary = (endpoint: string, destination: string): EndpointState => ({
  endpoint,
  destination,
  pausedAt: null,
  deadSince: null,
});

function namedBy(names: readonly string[], statuses: readonly EndpointStatus[]): readonly EndpointStatus[] {
  const isOf = ({ endpoint, destination }: EndpointStatus, name: string) => endpoint === name || destination === name;
  const unknown = names.filter((name) => !statuses.some((status) => isOf(status, name)));
  if (unknown.length > 0) {
    const known = [...statuses.map(({ destination }) => destination), ...statuses.map(({ endpoint }) => endpoint)];
    throw new RollcallError('bad_usage', nothingNamed('endpoint or destination', unknown, [...new Set(known)]));
  }
  return statuses.filter((status) => names.some((name) => isOf(status, name)));
}
