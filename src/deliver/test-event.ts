import type { Dispatcher } from 'undici';
import { type Destination, shownUrl } from '../destination.ts';
import type { Clock } from '../kernel/clock.ts';
import { readAnswer } from './batch-answer.ts';
import { BROKEN } from './endpoint/outlet.ts';
import { type Exchange, post } from './exchange.ts';
import { batchRequest, prepareEndpoint, singleRequest } from './request.ts';

export interface TestResult {
  readonly destination: string;
  readonly endpoint: string;
  /** Excludes user, password and query. */
  readonly url: string;
  readonly outcome: Exchange['outcome'];
  readonly status: number | null;
  readonly error: string | null;
  readonly ms: number;
  /** Signature headers of the request; empty if unsigned. */
  readonly signatures: readonly string[];
  /** Start of a failed endpoint's response. */
  readonly response: string | null;
  /** Advice for a fix; null on success. */
  readonly advice: string | null;
}

const EVENT = 'Rollcall Test';
const SIGNATURES = ['x-signature', 'webhook-signature'];

/**
 * Posts a test event to each endpoint of a destination, with the same code as deliveries, bypassing queue, windows and
 * attempt log.
 */
export async function sendTestEvent(
  destination: Destination,
  { agent, clock, serviceName, body: given }: TestOptions,
): Promise<TestResult[]> {
  const id = `test-${clock.token(8)}`;
  const body = given === undefined ? testBody(id, new Date(clock.now()).toISOString()) : Buffer.from(given);
  return Promise.all(
    destination.endpoints.map(async (endpoint) => {
      const prepared = prepareEndpoint(endpoint, destination, serviceName);
      const request = endpoint.batch
        ? batchRequest(prepared, [{ key: id, body }], () => clock.now())
        : singleRequest(prepared, { id, body }, () => clock.now());
      const [exchange] = readAnswer(await post(agent, clock, request), 1, prepared.secrets);
      const { outcome, status, error, ms, response } = exchange as Exchange;
      const result = {
        destination: destination.name,
        endpoint: endpoint.id,
        url: shownUrl(endpoint),
        outcome,
        status,
        error,
        ms: Math.round(ms),
        signatures: SIGNATURES.filter((name) => request.headers.includes(name)),
        response,
      };
      return { ...result, advice: adviceOn(result) };
    }),
  );
}

interface TestOptions {
  readonly agent: Dispatcher;
  readonly clock: Clock;
  readonly serviceName: string;
  /** Replaces the track event. */
  readonly body?: string | undefined;
}

function testBody(messageId: string, at: string): Buffer {
  const event = {
    version: 1,
    type: 'track',
    event: EVENT,
    userId: 'rollcall-test',
    properties: {},
    messageId,
    timestamp: at,
    receivedAt: at,
    context: {},
  };
  return Buffer.from(JSON.stringify(event));
}

function adviceOn({ url, outcome, status, error, signatures, response }: Omit<TestResult, 'advice'>): string | null {
  if (outcome === 'success') return null;
  if (outcome === 'address_refused')
    return 'It resolves to an address that is not public: name its range in network.allow if it is yours';
  if (outcome === 'tls_untrusted')
    return `Its certificate is not trusted (${error}): install another one, or name its authority in network.ca`;
  if (error === 'invalid_answer')
    return 'Its JSON answer is cut off or not a valid batch answer, so every message would be sent again';
  if (error?.startsWith('rejected_'))
    return outcome === 'retry' ? 'Its answer asks for the event once more' : 'Its answer rejects the event itself';
  if (status === 410) return 'It answers 410 (gone): a delivery would pause the endpoint until a person resumes it';
  if (status === 401 && response?.includes('webhook_too_old'))
    return 'The receiver takes the request for too old: compare the clocks of both machines';
  if (status === 401 || status === 403)
    return `The receiver refuses the ${signatures.length > 0 ? 'signature: compare sharedSecret with its secret' : 'request, which is not signed: set sharedSecret'}`;
  if (status === 404 || status === 405) return 'Nothing takes a POST at this path: compare the URL with the receiver';
  if (status !== null && status >= 300 && status < 400)
    return 'It redirects, which is not followed: name the URL of its Location';
  if (status !== null)
    return outcome === 'retry' ? 'A delivery would be retried' : 'The receiver refuses the event itself';
  return adviceOnSilence(String(error), url);
}

function adviceOnSilence(error: string, url: string): string {
  if (error === 'timeout') return 'It does not answer within 5 s';
  if (error.startsWith('proxy_'))
    return 'network.proxy did not pass it on: is it running, and does it allow this endpoint?';
  if (error === 'invalid_http') return 'The server there does not speak HTTP: compare the URL with the receiver';
  if (error.startsWith('ERR_SSL_')) return 'The TLS handshake fails: does it speak http?';
  if (BROKEN.has(error))
    return `It closes the connection without an answer${url.startsWith('http:') ? ': does it speak https?' : ''}`;
  return 'No connection: is the receiver running, and does its name resolve?';
}
