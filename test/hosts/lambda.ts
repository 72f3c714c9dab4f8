/** Runs the Lambda function of a module behind HTTP: `node lambda.ts MODULE SHAPE`. Each platform's event and answer. */
import { pathToFileURL } from 'node:url';
import { type Answer, type Given, type Headed, serveFunction } from './function-host.ts';

type Event = (given: Given, headers: Headed) => object;

const joined = (headers: Headed) => Object.fromEntries(headers.map(([name, values]) => [name, values.join(',')]));
const last = (headers: Headed) => Object.fromEntries(headers.map(([name, values]) => [name, values.at(-1)]));
const several = (headers: Headed) => Object.fromEntries(headers);

/** Types that platforms hand over as text. */
const isText = ({ headers }: Given) =>
  headers['content-encoding'] === undefined &&
  /^(?:text\/|application\/(?:json|javascript|xml))/.test(headers['content-type'] ?? '');
const asText = (given: Given, text = isText(given)) => ({
  body: given.body.length === 0 ? null : given.body.toString(text ? 'utf8' : 'base64'),
  isBase64Encoded: !text,
});
const asBytes = (given: Given) => asText(given, false);

type Bodied = typeof asText;

const version2 =
  (bodied: Bodied): Event =>
  (given, headers) => ({
    version: '2.0',
    routeKey: '$default',
    rawPath: given.path,
    rawQueryString: given.query,
    headers: joined(headers),
    requestContext: {
      domainName: 'example.lambda-url',
      stage: '$default',
      http: { method: given.method, path: given.path },
    },
    ...bodied(given),
  });
const version1 =
  (bodied: Bodied): Event =>
  (given, headers) => ({
    version: '1.0',
    resource: '/{proxy+}',
    path: given.path,
    httpMethod: given.method,
    headers: last(headers),
    multiValueHeaders: several(headers),
    queryStringParameters: null,
    multiValueQueryStringParameters: null,
    requestContext: { stage: 'prod', httpMethod: given.method, path: `/prod${given.path}` },
    ...bodied(given),
  });
const balancer =
  (listed: (headers: Headed) => object, bodied: Bodied): Event =>
  (given, headers) => ({
    requestContext: { elb: { targetGroupArn: 'arn:aws:elasticloadbalancing:x' } },
    httpMethod: given.method,
    path: given.path,
    queryStringParameters: {},
    ...listed(headers),
    ...bodied(given),
  });

interface Result {
  readonly statusCode: number;
  readonly headers?: Record<string, string>;
  readonly multiValueHeaders?: Record<string, string[]>;
  readonly body: string;
}

const single = ({ headers = {} }: Result) => headers;
const listed = ({ multiValueHeaders = {} }: Result) => multiValueHeaders;
const merged = (result: Result) => ({ ...single(result), ...listed(result) });

/** The event that each platform makes of a request, and the headers that it takes from the result. */
const shapes: Record<string, readonly [Event, (result: Result) => Answer['headers']]> = {
  'function URL': [version2(asText), single],
  'HTTP API, base64': [version2(asBytes), single],
  'REST API': [version1(asText), merged],
  'REST API, base64': [version1(asBytes), merged],
  'load balancer': [balancer((headers) => ({ headers: last(headers) }), asText), single],
  // It then reads no `headers`.
  'load balancer, several values, base64': [
    balancer((headers) => ({ multiValueHeaders: several(headers) }), asBytes),
    listed,
  ],
};

const [file = '', shape = ''] = process.argv.slice(2);
const [event, headersOf] = shapes[shape] ?? [];
if (event === undefined || headersOf === undefined) throw new Error(`no shape ${shape}`);
const { handler } = (await import(pathToFileURL(file).href)) as { handler(event: object): Promise<Result> };

serveFunction(async (given) => {
  const result = await handler(event(given, given.all));
  return { status: result.statusCode, headers: headersOf(result), body: result.body };
});
