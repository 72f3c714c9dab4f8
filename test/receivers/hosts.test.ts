import { once } from 'node:events';
import { globSync, readFileSync } from 'node:fs';
import { request as httpRequest, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { memoryStore, sign } from '../../receivers/index.ts';
import type { LambdaEvent, LambdaResult } from '../../receivers/lambda.ts';
import { conformance, createSender, webhook } from '../../receivers/testing.ts';
import { root } from './helpers/clean.ts';
import { examplesOf } from './helpers/documents.ts';
import { behindNode, serve } from './helpers/hosts.ts';
import { requests } from './helpers/requests.ts';
import { secret } from './helpers/samples.ts';

/** The exports of a recipe, and a server that stands for the platform where it exports none. */
type Recipe = Record<string, unknown>;
type OddRequest = typeof requests extends fc.Arbitrary<infer Each> ? Each : never;
type Platform = (recipe: Recipe) => Promise<{ url: string; close(): Promise<void> }>;

/** Names that the recipes take for given. */
const forgotten: string[] = [];
const nothing = () => {};
const forget = (user: string) => void forgotten.push(user);
Object.assign(globalThis, { forget, greet: nothing, miss: nothing, saveTraits: nothing, store: memoryStore() });
process.env['ROLLCALL_SECRET'] = secret;
process.env['NODE_ENV'] = 'production';
// The recipes log there whatever they refuse.
for (const level of ['warn', 'error'] as const) console[level] = nothing;

const ownServer: Platform = async ({ server }) => {
  const own = server as Server;
  if (!own.listening) await once(own, 'listening');
  return {
    url: `http://127.0.0.1:${(own.address() as AddressInfo).port}/hooks`,
    async close() {
      own.closeAllConnections();
      own.close();
      await once(own, 'close');
    },
  };
};

const behindRequests: (name: string) => Platform = (name) => (recipe) => {
  const handle = recipe[name] as (request: Request) => Promise<Response>;
  return behindNode({ handle, close: async () => {} });
};

const edge: Platform = (recipe) => {
  const { fetch } = recipe['default'] as { fetch(request: Request, env: object): Promise<Response> };
  return behindNode({ handle: (request) => fetch(request, process.env), close: async () => {} });
};

type EventOf = (request: IncomingMessage, body: Buffer) => LambdaEvent;

/** The largest bodies that the platforms take. */
const PAYLOAD_LIMIT = 6 * 1024 * 1024;

/** Platforms decode bodies that are text. */
function bodyOf(body: Buffer): Pick<LambdaEvent, 'body' | 'isBase64Encoded'> {
  const text = body.toString();
  const isText = Buffer.from(text).equals(body);
  return { body: isText ? text : body.toString('base64'), isBase64Encoded: !isText };
}

const functionUrl: EventOf = ({ headers, method = 'POST', url = '/' }, body) => ({
  ...bodyOf(body),
  headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)])),
  rawPath: url.split('?', 1)[0] as string,
  rawQueryString: url.split('?')[1] ?? '',
  requestContext: { http: { method } },
});

const restApi: EventOf = ({ headersDistinct, method = 'POST', url = '/' }, body) => ({
  ...bodyOf(body),
  headers: null,
  multiValueHeaders: headersDistinct,
  httpMethod: method,
  path: url,
});

const lambda: (eventOf: EventOf) => Platform = (eventOf) => (recipe) => {
  const handler = recipe['handler'] as (event: LambdaEvent) => Promise<LambdaResult>;
  return serve(
    async (request: IncomingMessage, response: ServerResponse) => {
      const parts: Buffer[] = [];
      // As the platforms do; the function never hears of it.
      if (Number(request.headers['content-length']) > PAYLOAD_LIMIT) return void response.writeHead(413).end();
      try {
        for await (const part of request) parts.push(part);
      } catch {
        // It never comes to an event.
        return;
      }
      const { statusCode, headers, body } = await handler(eventOf(request, Buffer.concat(parts)));
      response.writeHead(statusCode, headers).end(body);
    },
    async () => {},
  );
};

/** The platforms that run a recipe, by the name that it exports, or that a server has in it. */
const platforms: Readonly<Record<string, readonly (readonly [suffix: string, platform: Platform])[]>> = {
  server: [['', ownServer]],
  POST: [['', behindRequests('POST')]],
  handler: [
    [' with a function URL', lambda(functionUrl)],
    [' behind an API Gateway', lambda(restApi)],
  ],
  default: [['', edge]],
};
const EXPORTED = new RegExp(`^(?:export )?(?:const )?(${Object.keys(platforms).join('|')})\\b`, 'm');

const documented = examplesOf('docs/receivers.md');
const recipes = documented.filter(({ section }) => section === 'Other hosts');

/** Fastify, and all that stands in the document; a recipe may be for several packages. */
const sources = [
  { name: 'Fastify', code: `${documented[0]?.code}export const server = app.server;` },
  ...recipes.flatMap(({ heading, code }) => {
    if (heading !== 'Express 4 and 5') return [{ name: heading, code }];
    return [
      { name: 'Express 4', code: code.replace("'express'", "'express4'") },
      { name: 'Express 5', code },
    ];
  }),
];

const hosts = sources.flatMap(({ name, code }) => {
  const found = platforms[EXPORTED.exec(code)?.[1] ?? ''];
  if (found === undefined) throw new Error(`${name} needs a platform in this file that runs what it exports`);
  return found.map(([suffix, platform]) => ({ name: `${name}${suffix}`, code, platform }));
});

/** Starts the recipe as it stands in the document, but for the port. */
async function start(t: Test, { code, platform }: (typeof hosts)[number]) {
  const local = code
    .replaceAll(/'@rollcall\/receivers(?:\/([a-z-]+))?'/g, (_, part = 'index') => `'${root}receivers/${part}.ts'`)
    .replace('3000', '0')
    .replace('logger: true', 'logger: false')
    .replace(/^const server =/m, 'export const server =');
  const file = join(t.testdir({ 'recipe.ts': local }), 'recipe.ts');
  const running = await platform(await import(`${pathToFileURL(file)}?${crypto.randomUUID()}`));
  t.teardown(() => running.close());
  return running.url;
}

/** What a stranger sends is the stranger's fault, and what a sender that we know signs is not the host's either. */
const blameless = [200, 400, 401, 404, 405, 413, 415];
/** Odd requests for each host; more of them: `HOST_REQUESTS=2000`. */
const REQUESTS = Number(process.env['HOST_REQUESTS'] ?? 60);

/** Odd requests, signed by somebody who knows the secret, by somebody who doesn't, or not at all. */
async function odd(url: string): Promise<void> {
  const { port, pathname } = new URL(url);
  const send = async ({ body, headers, signature }: OddRequest, isKnown: boolean) => {
    const right = isKnown ? sign(body, secret) : '0'.repeat(40);
    const given = signature === 'right' ? right : signature;
    const request = httpRequest({
      port,
      path: pathname,
      method: ['POST', 'POST', 'POST', 'PUT', 'GET', 'DELETE'][body.length % 6],
      agent: false,
      headers: { ...headers, ...(given !== undefined && { 'x-signature': given }), 'content-length': body.length },
    });
    const status = await new Promise<number | undefined>((resolve) => {
      request.on('response', (response) => resolve(response.resume().statusCode));
      // An answer that comes before everything is written may get lost with the connection.
      request.on('error', () => resolve(undefined)).end(body);
    });
    if (status === undefined) return;
    if (!blameless.includes(status)) throw new Error(`status ${status}`);
    if (status === 200 && given !== sign(body, secret)) throw new Error('an unsigned request was accepted');
  };
  await fc.assert(fc.asyncProperty(requests, fc.boolean(), send), { numRuns: REQUESTS });
  // Uploads that break off, and what is no HTTP.
  for (const bytes of [
    'POST /hooks HTTP/1.1\r\nhost: a\r\ncontent-length: 1000\r\ncontent-type: application/json\r\n\r\n{',
    'POST /hooks HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ncontent-type: application/json\r\n\r\nzz\r\n',
    `POST /hooks HTTP/1.1\r\nhost: a\r\nx-signature: ${'0'.repeat(40)}\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{`,
    '\0\0\0\0',
  ]) {
    const socket = connect(Number(port), '127.0.0.1').on('error', () => {});
    await new Promise<void>((resolve) => socket.write(bytes, () => resolve()));
    socket.destroy();
    if (!socket.closed) await once(socket, 'close');
  }
}

t.test('names the import of every host in the README of the kit', async (t) => {
  const readme = readFileSync(`${root}receivers/README.md`, 'utf8');
  const imports = recipes.flatMap(({ code }) => [...code.matchAll(/'(@rollcall\/receivers[^']*)'/g)]);
  t.ok(imports.length >= recipes.length);
  for (const name of new Set(imports.map(([, name = '']) => name))) t.match(readme, name);
});

t.test('has no recipe that refuses to load where a build has no secret', async (t) => {
  const documents = globSync(['*.md', 'docs/**/*.md', 'receivers/*.md', 'examples/*/*.{md,ts,mts}'], { cwd: root });
  t.ok(documents.length > 30);
  for (const document of documents) {
    const receivers = readFileSync(`${root}${document}`, 'utf8').replaceAll(/createSender\(.*/g, '');
    t.notMatch(receivers, /secret: \[?process\.env\.\w+ (\?\?|\|\|)/, document);
  }
});

for (const host of hosts) {
  const { name } = host;
  t.test(`${name}: loads without the secret, as while an app is built, and answers 503`, async (t) => {
    delete process.env['ROLLCALL_SECRET'];
    t.teardown(() => {
      process.env['ROLLCALL_SECRET'] = secret;
    });
    const url = await start(t, host);
    t.match(await createSender({ url, secret }).send(webhook('track')), { status: 503, body: /secret_unavailable/ });
  });

  t.test(
    `${name}: passes every conformance case with the recipe of the documents, and takes any request`,
    async (t) => {
      const url = await start(t, host);
      for await (const result of conformance({ url, secret, batches: true })) {
        t.ok(result.passed, `${result.name}: ${result.got}`, { expected: result.expected, error: result.error });
      }
      await odd(url);
      const user = `last of ${name}`;
      t.equal((await createSender({ url, secret }).send(webhook('delete', { userId: user }))).status, 200);
      t.ok(forgotten.includes(user), 'the handler got it');
    },
  );
}
