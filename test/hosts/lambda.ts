/**
 * Runs the Lambda function of a module behind HTTP: `node lambda.ts MODULE SHAPE`. AWS's own client for Node calls it, as
 * in the platform. This is the platform's part: its Runtime API, and the event and answer of each shape.
 */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
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

const [module = '', shape = ''] = process.argv.slice(2);
const [event, headersOf] = shapes[shape] ?? [];
if (event === undefined || headersOf === undefined) throw new Error(`no shape ${shape}`);

interface Invocation {
  readonly event: object;
  readonly answered: PromiseWithResolvers<Result>;
}

const CLIENT = join(import.meta.dirname, 'node_modules/aws-lambda-ric/index.mjs');
/** Each handles one request at a time. */
const INSTANCES = 3;
const waiting: Invocation[] = [];
const free: ((invocation: Invocation) => void)[] = [];

/** A process of the function. It is frozen between its answer and the next invocation. */
async function startInstance(): Promise<void> {
  let current: Invocation | undefined;
  const api = createServer(async (request, response) => {
    const path = request.url?.replace('/2018-06-01/runtime/', '') ?? '';
    if (path === 'invocation/next') {
      const take = (invocation: Invocation) => {
        current = invocation;
        running.kill('SIGCONT');
        const headers = {
          'content-type': 'application/json',
          'lambda-runtime-aws-request-id': randomUUID(),
          'lambda-runtime-deadline-ms': String(Date.now() + 30_000),
          'lambda-runtime-invoked-function-arn': 'arn:aws:lambda:eu-central-1:123456789012:function:hooks',
        };
        response.writeHead(200, headers).end(JSON.stringify(invocation.event));
      };
      const next = waiting.shift();
      if (next) return take(next);
      free.push(take);
      return void running.kill('SIGSTOP');
    }
    const result = await json(request);
    response.writeHead(202).end();
    if (path.endsWith('/response')) current?.answered.resolve(result as Result);
    else current?.answered.reject(new Error(`${path}: ${JSON.stringify(result)}`));
  }).listen(0, '127.0.0.1');
  await once(api, 'listening');
  const running = spawn(process.execPath, [CLIENT], {
    env: {
      ...process.env,
      AWS_LAMBDA_RUNTIME_API: `127.0.0.1:${(api.address() as AddressInfo).port}`,
      AWS_LAMBDA_FUNCTION_NAME: 'hooks',
      AWS_LAMBDA_FUNCTION_VERSION: '$LATEST',
      AWS_LAMBDA_FUNCTION_MEMORY_SIZE: '128',
      AWS_LAMBDA_LOG_GROUP_NAME: '/aws/lambda/hooks',
      AWS_LAMBDA_LOG_STREAM_NAME: 'hooks',
      LAMBDA_TASK_ROOT: process.cwd(),
      _HANDLER: module.replace(/\.\w+$/, '.handler'),
    },
    stdio: 'inherit',
  }).on('exit', (code) => process.exit(code ?? 1));
}

for (let count = 0; count < INSTANCES; count += 1) await startInstance();
serveFunction(async (given) => {
  const invocation = { event: event(given, given.all), answered: Promise.withResolvers<Result>() };
  const take = free.shift();
  if (take) take(invocation);
  else waiting.push(invocation);
  const result = await invocation.answered.promise;
  return { status: result.statusCode, headers: headersOf(result), body: result.body };
});
