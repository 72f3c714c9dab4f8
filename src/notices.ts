import type { Accept } from './accept.ts';
import type { Clock } from './clock.ts';
import type { Config } from './config/config.ts';
import { type Destination, endpointId } from './destination.ts';
import { isoTime } from './timestamp.ts';

/** What people are told of: a held, failed or overdue run. */
interface RunNotice {
  readonly event: 'held' | 'failed' | 'overdue';
  readonly key: string;
  readonly run: { readonly id: string } | null;
  readonly code: string | null;
  readonly message: string;
}

/** That an endpoint refuses everything. */
interface EndpointNotice {
  readonly destination: string;
  readonly endpoint: string;
  /** Without user, password and query. */
  readonly url: string | null;
  /** Since when, as ISO 8601. */
  readonly since: string;
}

/** Names that no configured source or destination can have, because of the colon. */
const NOTICE_SOURCE = 'rollcall:notices';
export const NOTICE_DESTINATION = 'rollcall:notify';

/** The `notify` webhook as a destination: notices are signed, retried and kept like any other message. */
export function noticeDestination({ notify }: Config): readonly Destination[] {
  if (notify === null) return [];
  const endpoint = { id: endpointId(NOTICE_DESTINATION, notify.url), url: notify.url, headers: {}, isSecret: true };
  return [
    {
      name: NOTICE_DESTINATION,
      enabled: true,
      sources: [NOTICE_SOURCE],
      secrets: notify.secret === null ? [] : [notify.secret],
      endpoints: [endpoint],
      require: 'any',
      ratePerSecond: null,
    },
  ];
}

/** Sends a notice as a track call: event `Run Held`, `Run Failed` or `Run Overdue`. */
export async function sendNotice(accept: Accept, clock: Clock, notice: RunNotice): Promise<void> {
  const { event, key, run, code, message } = notice;
  const properties = { key, run: run?.id ?? null, code, message };
  await send(accept, clock, `Run ${event[0]?.toUpperCase()}${event.slice(1)}`, properties);
}

/** Sends a notice as a track call: event `Endpoint Refusing`. */
export async function sendEndpointNotice(accept: Accept, clock: Clock, notice: EndpointNotice): Promise<void> {
  const { destination, endpoint, url, since } = notice;
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
  await accept(NOTICE_SOURCE, [{ type: 'track', messageId, userId: null, integrations: null, body }]);
}
