import type { Accept } from './accept.ts';
import type { Config } from './config/config.ts';
import { type Destination, endpointId } from './destination.ts';
import type { Clock } from './kernel/clock.ts';
import { isoTime } from './kernel/timestamp.ts';

/** An alert about a run: held, failed or overdue. */
interface RunAlert {
  readonly event: 'held' | 'failed' | 'overdue';
  readonly key: string;
  readonly run: { readonly id: string } | null;
  readonly code: string | null;
  readonly message: string;
}

/** That an endpoint refuses everything. */
interface EndpointAlert {
  readonly destination: string;
  readonly endpoint: string;
  /** Without user, password and query. */
  readonly url: string | null;
  /** Since when, as ISO 8601. */
  readonly since: string;
}

/** Names that no configured source or destination can have, because of the colon. */
const NOTIFY_SOURCE = 'rollcall:notices';
export const NOTIFY_DESTINATION = 'rollcall:notify';

/** The `notify` webhook as a destination: alerts are signed, retried and kept like any other message. */
export function notifyDestination({ notify }: Config): readonly Destination[] {
  if (notify === null) return [];
  const endpoint = { id: endpointId(NOTIFY_DESTINATION, notify.url), url: notify.url, headers: {}, isSecret: true };
  return [
    {
      name: NOTIFY_DESTINATION,
      enabled: true,
      sources: [NOTIFY_SOURCE],
      secrets: notify.secret === null ? [] : [notify.secret],
      endpoints: [endpoint],
      require: 'any',
      ratePerSecond: null,
    },
  ];
}

/** Sends an alert as a track call: event `Run Held`, `Run Failed` or `Run Overdue`. */
export async function sendRunAlert(accept: Accept, clock: Clock, alert: RunAlert): Promise<void> {
  const { event, key, run, code, message } = alert;
  const properties = { key, run: run?.id ?? null, code, message };
  await send(accept, clock, `Run ${event[0]?.toUpperCase()}${event.slice(1)}`, properties);
}

/** Sends an alert as a track call: event `Endpoint Refusing`. */
export async function sendEndpointAlert(accept: Accept, clock: Clock, alert: EndpointAlert): Promise<void> {
  const { destination, endpoint, url, since } = alert;
  const message = `${destination} refuses everything at ${url ?? endpoint}: its URL or secret seems to be wrong.`;
  await send(accept, clock, 'Endpoint Refusing', {
    destination,
    endpoint,
    url,
    since,
    code: 'endpoint_refusing',
    message,
  });
}

async function send(
  accept: Accept,
  clock: Clock,
  event: string,
  properties: Readonly<Record<string, string | null>>,
): Promise<void> {
  const messageId = clock.uuid();
  const timestamp = isoTime(clock.now());
  const body = JSON.stringify({
    ...{ version: 1, type: 'track', messageId, event, properties },
    ...{ timestamp, receivedAt: timestamp, context: {} },
  });
  await accept(NOTIFY_SOURCE, [{ type: 'track', messageId, userId: null, integrations: null, body }]);
}
