import type { FastifyPluginAsync } from 'fastify';
import type { Registry } from 'prom-client';
import { type Destination, redactUrl } from '../destination.ts';
import { answerError } from '../http-errors.ts';
import { type Store, whyClosed } from '../store/port.ts';
import type { Guard } from './guard.ts';

interface AdminOptions {
  readonly guard: Guard;
  readonly registry: Registry;
  readonly store: Pick<Store, 'time' | 'backlog' | 'endpoints'>;
  readonly destinations: () => readonly Destination[];
  /** Reads the configuration file again and applies it. */
  readonly reload: () => Promise<void>;
}

/** State of an endpoint, as the status API and the command line show it. */
export interface EndpointStatus {
  readonly destination: string;
  readonly endpoint: string;
  /** Without user, password and query. */
  readonly url: string;
  readonly state: 'open' | 'dead' | 'refusing' | 'paused' | 'disabled';
  readonly since: string | null;
  readonly pending: number;
  /** Dead letters, those held out included. */
  readonly dead: number;
  /** Dead letters `queue_full`, which are queued again by themselves. */
  readonly heldOut: number;
}

/** Metrics and the status API. */
export const adminApi: FastifyPluginAsync<AdminOptions> = async (app, options) => {
  app.setErrorHandler(answerError);
  app.addHook('onRequest', options.guard);
  app.get('/metrics', { schema: { hide: true } }, async (_request, reply) => {
    reply.type(options.registry.contentType);
    return options.registry.metrics();
  });
  app.get('/api/endpoints', { schema: { hide: true } }, () => endpointStatuses(options.store, options.destinations()));
  app.post('/api/reload', { schema: { hide: true } }, async () => {
    await options.reload();
    return { success: true };
  });
};

export async function endpointStatuses(
  store: Pick<Store, 'time' | 'backlog' | 'endpoints'>,
  destinations: readonly Destination[],
): Promise<EndpointStatus[]> {
  const states = new Map((await store.endpoints()).map((state) => [state.endpoint, state]));
  const backlogs = new Map((await store.backlog()).map((backlog) => [backlog.destination, backlog]));
  return destinations.flatMap(({ name, enabled, endpoints }) =>
    endpoints.map(({ id, url }) => {
      const state = states.get(id) ?? { endpoint: id, destination: name, pausedAt: null, deadSince: null };
      const backlog = backlogs.get(name);
      const since = state.pausedAt ?? state.refusal?.since ?? state.deadSince;
      return {
        destination: name,
        endpoint: id,
        url: redactUrl(url),
        state: enabled ? whyClosed(state) : 'disabled',
        since: since === null ? null : new Date(store.time.toWall(since)).toISOString(),
        pending: backlog?.pending ?? 0,
        dead: backlog?.dead ?? 0,
        heldOut: backlog?.heldOut ?? 0,
      } as const;
    }),
  );
}
