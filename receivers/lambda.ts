import type { EdgeReceiver } from './edge.ts';

/** The parts used of the event of a function URL, of an API Gateway (both of its formats) or of a load balancer. */
export interface LambdaEvent {
  headers?: Record<string, string | undefined> | null;
  multiValueHeaders?: Record<string, string[] | undefined> | null;
  body?: string | null;
  isBase64Encoded?: boolean;
  httpMethod?: string;
  path?: string;
  rawPath?: string;
  rawQueryString?: string;
  requestContext?: { http?: { method?: string } };
}

/** The answer of such a function. */
export interface LambdaResult {
  statusCode: number;
  headers: Record<string, string>;
  body: string;
}

function headersOf({ headers, multiValueHeaders }: LambdaEvent): Headers {
  const all = new Headers();
  const several = Object.entries(multiValueHeaders ?? {});
  const given =
    several.length > 0 ? several : Object.entries(headers ?? {}).map(([name, value]) => [name, [value]] as const);
  for (const [name, values] of given)
    for (const value of values ?? []) if (value !== undefined) all.append(name, value);
  return all;
}

function requestOf(event: LambdaEvent): Request {
  const method = event.requestContext?.http?.method ?? event.httpMethod ?? 'POST';
  const path = event.rawPath ?? event.path ?? '/';
  const query = event.rawQueryString ? `?${event.rawQueryString}` : '';
  const hasBody = method !== 'GET' && method !== 'HEAD';
  const body = Buffer.from(event.body ?? '', event.isBase64Encoded ? 'base64' : 'utf8');
  return new Request(`https://lambda.invalid${path}${query}`, {
    method,
    headers: headersOf(event),
    ...(hasBody && { body }),
  });
}

/**
 * A handler for AWS Lambda. The platform freezes the process once the answer is out: handlers have to be done by then,
 * and the receiver needs a `store` that all instances share.
 */
export function lambdaHandler(receiver: Pick<EdgeReceiver, 'handle'>): (event: LambdaEvent) => Promise<LambdaResult> {
  return async (event) => {
    let request: Request;
    try {
      request = requestOf(event);
    } catch {
      // A method or header that no request can have.
      const body = JSON.stringify({ code: 'bad_request', message: 'not a request' });
      return { statusCode: 400, headers: { 'content-type': 'application/json; charset=utf-8' }, body };
    }
    const response = await receiver.handle(request);
    return {
      statusCode: response.status,
      headers: Object.fromEntries(response.headers),
      body: await response.text(),
    };
  };
}
