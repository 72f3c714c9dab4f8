import { bodyAlreadyRead, type Reply, refusal } from './core/reply.ts';
import type { EdgeReceiver } from './edge.ts';

type One = Record<string, string | undefined> | null | undefined;
type Several = Record<string, string[] | undefined> | null | undefined;

/** The fields used here of an event from a function URL, an API Gateway (both formats) or a load balancer. */
export interface LambdaEvent {
  headers?: One;
  multiValueHeaders?: Several;
  body?: string | null | undefined;
  isBase64Encoded?: boolean;
  httpMethod?: string;
  path?: string;
  rawPath?: string;
  rawQueryString?: string;
  queryStringParameters?: One;
  multiValueQueryStringParameters?: Several;
  /** A REST API's has none of the fields used. */
  requestContext?: object;
}

/** The fields used of `requestContext`. */
interface RequestContext {
  http?: { method?: string };
  elb?: object;
}

/** The function's answer. */
export interface LambdaResult {
  statusCode: number;
  headers: Record<string, string>;
  /** As in the event: a load balancer with such headers ignores the others. */
  multiValueHeaders?: Record<string, string[]>;
  body: string;
}

/** Pairs of each name and value. Some platforms send only the last value, some all of them, some both. */
function pairsOf(one: One, several: Several): [name: string, value: string][] {
  const all = Object.entries(several ?? {});
  const given = all.length > 0 ? all : Object.entries(one ?? {}).map(([name, value]) => [name, [value]] as const);
  return given.flatMap(([name, values]) =>
    (values ?? []).flatMap((value): [string, string][] => (value === undefined ? [] : [[name, value]])),
  );
}

function headersOf({ headers, multiValueHeaders }: LambdaEvent): Headers {
  const all = new Headers();
  for (const [name, value] of pairsOf(headers, multiValueHeaders)) all.append(name, value);
  return all;
}

const contextOf = ({ requestContext }: LambdaEvent): RequestContext => requestContext ?? {};

function queryOf(event: LambdaEvent): string {
  const { rawQueryString, queryStringParameters, multiValueQueryStringParameters } = event;
  if (rawQueryString !== undefined) return rawQueryString;
  // A REST API decodes them. A load balancer does not.
  const written = contextOf(event).elb === undefined ? encodeURIComponent : String;
  const pairs = pairsOf(queryStringParameters, multiValueQueryStringParameters);
  return pairs.map(([name, value]) => `${written(name)}=${written(value)}`).join('&');
}

function requestOf(event: LambdaEvent): Request {
  const method = contextOf(event).http?.method ?? event.httpMethod ?? 'POST';
  const path = event.rawPath ?? event.path ?? '/';
  const query = queryOf(event);
  const hasBody = method !== 'GET' && method !== 'HEAD';
  const body = Buffer.from(event.body ?? '', event.isBase64Encoded ? 'base64' : 'utf8');
  return new Request(`https://lambda.invalid${path}${query && `?${query}`}`, {
    method,
    headers: headersOf(event),
    ...(hasBody && { body }),
  });
}

function resultOf(event: LambdaEvent | null | undefined, { status, headers, body }: Reply): LambdaResult {
  const listed = Object.entries(headers).map(([name, value]): [string, string[]] => [name, [value]]);
  const multiValueHeaders = event?.multiValueHeaders && { multiValueHeaders: Object.fromEntries(listed) };
  return { statusCode: status, headers, ...multiValueHeaders, body };
}

/**
 * A handler for AWS Lambda. The platform freezes the process after the answer, so handlers must finish before. The
 * receiver needs a `store` that all instances share.
 *
 * @throws TypeError without a receiver
 */
export function lambdaHandler(receiver: Pick<EdgeReceiver, 'handle'>): (event: LambdaEvent) => Promise<LambdaResult> {
  if (typeof receiver?.handle !== 'function') throw new TypeError('give what createReceiver has made');
  return async (event) => {
    // A mapping template has parsed it, or it is another event: not the sender's fault.
    if (typeof (event?.body ?? '') !== 'string') return resultOf(event, bodyAlreadyRead);
    let request: Request;
    try {
      request = requestOf(event);
    } catch {
      // Not an event, or a method or header that no request can have.
      return resultOf(event, refusal(400, 'bad_request', 'not a request'));
    }
    const response = await receiver.handle(request);
    const { status, headers } = response;
    return resultOf(event, { status, headers: Object.fromEntries(headers), body: await response.text() });
  };
}
