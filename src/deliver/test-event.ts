import type { Dispatcher } from 'undici';
import { type Destination, shownUrl } from '../destination.ts';
import type { Clock } from '../kernel/clock.ts';
import { readAnswer } from './batch-answer.ts';
import { BROKEN } from './endpoint/outlet.ts';
import { type Exchange, post } from './exchange.ts';
import { batchRequest, prepareEndpoint, singleRequest } from './request.ts';
import { SIGNATURE_HEADERS, signatureMistake } from './signature-mistakes.ts';

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
 * Posts test messages to each endpoint of a destination, with the same code as deliveries, bypassing queue, windows and
 * attempt log. Several go in one batch.
 */
export async function sendTestEvent(
  destination: Destination,
  { agent, clock, serviceName, bodies: given }: TestOptions,
): Promise<TestResult[]> {
  const id = `test-${clock.token(8)}`;
  const bodies = given?.map((body) => Buffer.from(body)) ?? [testBody(id, new Date(clock.now()).toISOString())];
  const items = bodies.map((body, index) => ({ key: `${id}-${index}`, body }));
  return Promise.all(
    destination.endpoints.map(async (endpoint) => {
      const prepared = prepareEndpoint(endpoint, destination, serviceName);
      const at = clock.now();
      const request =
        endpoint.batch || items.length > 1
          ? batchRequest(prepared, items, () => at)
          : singleRequest(prepared, { id, body: bodies[0] as Buffer }, () => at);
      const { outcome, status, error, ms, response } = worstOf(
        readAnswer(await post(agent, clock, request), items.length, prepared.secrets),
      );
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
      const { secrets, signing = 'x-signature' } = destination;
      const signed = { body: request.body, secrets, signing, id, at };
      const mistake =
        status === 401
          ? await signatureMistake(signed, async (headers) => {
              const probe = { ...request, headers: withSignatures(request.headers, headers) };
              return (await post(agent, clock, probe)).outcome === 'success';
            })
          : null;
      return { ...result, advice: mistake ?? adviceOn(result) };
    }),
  );
}

/** The exchange to report for all messages of a batch: a failure, or else one that says more than success. */
function worstOf(exchanges: readonly Exchange[]): Exchange {
  const failed = exchanges.find(({ outcome }) => outcome !== 'success');
  return failed ?? exchanges.find(({ error }) => error !== null) ?? (exchanges[0] as Exchange);
}

function withSignatures(headers: readonly string[], signatures: Readonly<Record<string, string>>): string[] {
  const others = headers.filter((_, index) => !SIGNATURE_HEADERS.includes(headers[index - (index % 2)] as string));
  return [...others, ...Object.entries(signatures).flat()];
}

interface TestOptions {
  readonly agent: Dispatcher;
  readonly clock: Clock;
  readonly serviceName: string;
  /** Replace the track event. */
  readonly bodies?: readonly string[] | undefined;
}

function testBody(messageId: string, at: string): Buffer {
  const event = {
    version: 1,
    type: 'track',
    event: EVENT,
    userId: 'rollcall-test',
    // Written otherwise by most languages, so a receiver that verifies what it has parsed and written shows it.
    properties: { text: 'Grüße </>' },
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
  if (status === 401 || status === 403) return adviceOnDenial(signatures, response ?? '');
  if (status === 404 || status === 405) return 'Nothing takes a POST at this path: compare the URL with the receiver';
  if (status !== null && status >= 300 && status < 400)
    return 'It redirects, which is not followed: name the URL of its Location';
  if (status !== null)
    return outcome === 'retry' ? 'A delivery would be retried' : 'The receiver refuses the event itself';
  return adviceOnSilence(String(error), url);
}

function adviceOnDenial(signatures: readonly string[], response: string): string {
  if (signatures.length === 0) return 'The receiver refuses the request, which is not signed: set sharedSecret';
  if (/"(signature|webhook_headers)_missing"/.test(response))
    return 'The signature does not arrive: a proxy before the receiver drops its headers';
  if (/"(signature|webhook_headers)_malformed"/.test(response))
    return 'The signature arrives changed: a proxy before the receiver rewrites or repeats its headers';
  return 'The receiver refuses the signature: compare sharedSecret with its secret, and what arrives with what was sent';
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
