import t from 'tap';
import { createReceiver } from '../../receivers/index.ts';
import { type LambdaEvent, lambdaHandler } from '../../receivers/lambda.ts';
import { signed, webhook } from '../../receivers/testing.ts';
import { silent } from './helpers/hosts.ts';
import { secret } from './helpers/samples.ts';

type Made = ReturnType<typeof signed>;

/** One request as each of the platforms hands it over. */
const events: Record<string, (made: Made) => LambdaEvent> = {
  'a function URL, or an HTTP API': ({ headers, body }) => ({
    headers,
    body,
    isBase64Encoded: false,
    rawPath: '/hooks',
    rawQueryString: 'tenant=a&x=%2F',
    requestContext: { http: { method: 'POST' } },
  }),
  'the same in base64': ({ headers, body }) => ({
    headers,
    body: Buffer.from(body).toString('base64'),
    isBase64Encoded: true,
    rawPath: '/hooks',
    rawQueryString: 'tenant=a&x=%2F',
    requestContext: { http: { method: 'POST' } },
  }),
  'a REST API': ({ headers, body }) => ({
    headers,
    multiValueHeaders: Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name.toUpperCase(), [value]]),
    ),
    body,
    isBase64Encoded: false,
    httpMethod: 'POST',
    path: '/hooks',
    queryStringParameters: { tenant: 'b', x: '/' },
    multiValueQueryStringParameters: { tenant: ['a'], x: ['/'] },
  }),
  'a load balancer': ({ headers, body }) => ({
    headers,
    body,
    isBase64Encoded: false,
    httpMethod: 'POST',
    path: '/hooks',
    queryStringParameters: { tenant: 'a', x: '%2F' },
    requestContext: { elb: {} },
  }),
  'a load balancer with lists of values': ({ headers, body }) => ({
    multiValueHeaders: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value]])),
    body,
    isBase64Encoded: false,
    httpMethod: 'POST',
    path: '/hooks',
    multiValueQueryStringParameters: { tenant: ['a'], x: ['%2F'] },
    requestContext: { elb: {} },
  }),
};

for (const [platform, event] of Object.entries(events)) {
  t.test(`lambda: ${platform}`, async (t) => {
    const urls: string[] = [];
    const hooks = createReceiver({ secret, log: silent, on: { track: (_, { url }) => void urls.push(url) } });
    const handler = lambdaHandler(hooks);
    const made = signed(webhook('track', { properties: { text: 'ü€😀' } }), secret);
    t.match(await handler(event(made)), { statusCode: 200, body: '{"received":true}' });
    t.match(await handler(event(made)), { statusCode: 200, body: /duplicate/ });
    t.match(await handler({ ...event(made), body: `${made.body} ` }), { statusCode: 401 });
    const { multiValueHeaders } = await handler(event(made));
    const listed = event(made).multiValueHeaders && ['application/json; charset=utf-8'];
    t.same(multiValueHeaders?.['content-type'], listed, 'headers in the form of the event');
    t.match(await handler({ ...event(made), body: null }), { statusCode: 401 });
    t.same(urls, ['/hooks?tenant=a&x=%2F']);
  });
}

t.test('lambda: does not blame the sender for a body that a mapping template has parsed', async (t) => {
  const handler = lambdaHandler(createReceiver({ secret, log: silent, on: {} }));
  const { headers, body } = signed(webhook('track'), secret);
  t.match(await handler({ headers, body: JSON.parse(body) }), { statusCode: 500, body: /body_already_read/ });
});

t.test('lambda: answers an event that is no request, whatever it has', async (t) => {
  const handler = lambdaHandler(createReceiver({ secret, log: silent, on: {} }));
  for (const event of [
    undefined,
    null,
    {},
    { headers: null, body: null },
    { requestContext: { http: { method: 'GET' } } },
    { httpMethod: 'BAD METHOD' },
    { headers: { 'bad header': 'x' } },
    { headers: { x: 'a\nb' } },
    { multiValueHeaders: { 'x-signature': ['0'.repeat(40), '1'.repeat(40)] } },
  ] as LambdaEvent[]) {
    const { statusCode } = await handler(event);
    t.ok(statusCode >= 400 && statusCode < 500, `${JSON.stringify(event)}: ${statusCode}`);
  }
});

t.test('lambda: refuses options in place of a receiver at once', async (t) => {
  for (const given of [undefined, { secret, on: {} }])
    t.throws(() => lambdaHandler(given as never), { name: 'TypeError', message: 'give what createReceiver has made' });
});
