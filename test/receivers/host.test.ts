import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { Readable } from 'node:stream';
import Fastify from 'fastify';
import t, { type Test } from 'tap';
import { systemClock } from '../../receivers/clock.ts';
import { createReceiver as createEdgeReceiver } from '../../receivers/edge.ts';
import {
  createReceiver,
  createVerifyAndParse,
  type Failure,
  memoryStore,
  receiver,
  type StandaloneOptions,
} from '../../receivers/index.ts';
import { createSender, signed, webhook } from '../../receivers/testing.ts';
import { hosts, listen, silent } from './helpers/hosts.ts';
import { body, post, secret } from './helpers/samples.ts';

interface Faults {
  readonly options: StandaloneOptions;
  /** Resolves to the next failure that `on.error` hears of. */
  next(): Promise<Failure>;
}

function faults(options: Partial<StandaloneOptions> = {}): Faults {
  const heard: Failure[] = [];
  let wake = () => {};
  const error = (_: unknown, failure: Failure) => {
    heard.push(failure);
    wake();
  };
  return {
    options: { secret, log: silent, ...options, on: { ...options.on, error } } as StandaloneOptions,
    async next() {
      while (heard.length === 0) await new Promise<void>((resolve) => (wake = resolve));
      return heard.shift() as Failure;
    },
  };
}

async function serve(t: Test, listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`;
}

type Host = (hooks: ReturnType<typeof createReceiver>, request: IncomingMessage, response: ServerResponse) => void;

/** Hosts that answer before the receiver does, or whose responses are not Node's. */
const rude: Record<string, Host> = {
  'a host that has answered already': (hooks, request, response) => {
    response.writeHead(503).end('too late');
    hooks.node(request, response);
  },
  'a host that answers while the handler works': (hooks, request, response) => {
    hooks.node(request, response);
    response.writeHead(503).end('connect-timeout');
  },
  'a host that sends its head only': (hooks, request, response) => {
    response.writeHead(404);
    hooks.node(request, response);
    setImmediate(() => response.end());
  },
  'a host whose response throws': (hooks, request, response) => {
    const broken = Object.create(response) as ServerResponse;
    broken.writeHead = () => {
      response.statusCode = 500;
      response.end();
      throw new Error('not today');
    };
    hooks.node(request, broken);
  },
};

for (const [name, host] of Object.entries(rude)) {
  t.test(`node: survives ${name}, and reports to on.error`, async (t) => {
    const { options, next } = faults({ on: { any: async () => {} } });
    const hooks = createReceiver(options);
    const url = await serve(t, (request, response) => host(hooks, request, response));
    for (let time = 0; time < 3; time += 1) {
      await createSender({ url, secret }).send(webhook('track'));
      t.equal((await next()).stage, 'host');
    }
    // Unsigned too: nobody has to know the secret to end the process.
    await createSender({ url, secret: 'another' }).send(webhook('track'));
    t.equal((await next()).stage, 'host');
  });
}

t.test('node: does not blame the host for a sender that hangs up, however often', async (t) => {
  const failures: Failure[] = [];
  const hooks = createReceiver({ secret, log: silent, on: { error: (_, failure) => void failures.push(failure) } });
  const closed: Promise<unknown>[] = [];
  const url = await serve(t, (request, response) => {
    closed.push(once(response, 'close'));
    hooks.node(request, response);
  });
  const sender = createSender({ url, secret });
  for (let time = 0; time < 5; time += 1) await sender.cutOff(webhook('track'));
  t.equal((await sender.send(webhook('track'))).status, 200);
  await Promise.all(closed);
  t.same(failures, []);
});

t.test('node: answers through a response whose writeHead returns nothing, as on function platforms', async (t) => {
  const hooks = createReceiver({ secret, on: {}, log: silent });
  const url = await serve(t, (request, response) => {
    const { writeHead } = response;
    response.writeHead = ((...head: Parameters<typeof writeHead>) => void writeHead.apply(response, head)) as never;
    hooks.node(request, response);
  });
  t.equal((await post(url, body('track'))).status, 200);
});

t.test('node: takes the bytes that a platform gives as rawBody, whatever body is', async (t) => {
  const hooks = createReceiver({ secret, on: {}, log: silent });
  const url = await serve(t, (request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', () => {
      const bytes = Buffer.concat(parts);
      const given = { bytes, array: new Uint8Array(bytes), text: String(bytes) };
      const rawBody = given[request.url?.split('/').at(-1) as keyof typeof given];
      hooks.node(Object.assign(request, { rawBody, body: JSON.parse(String(bytes)) }), response);
    });
  });
  for (const form of ['bytes', 'array', 'text'])
    t.equal((await post(`${url}/${form}`, body('track'))).status, 200, form);
});

t.test('node: blames the host, not the sender, for a body that another listener has begun to read', async (t) => {
  const { options, next } = faults();
  const hooks = createReceiver(options);
  const url = await serve(t, (request, response) => {
    request.once('data', () => hooks.node(request, response));
  });
  t.match(await post(url, body('track')), { status: 500, body: { code: 'body_already_read' } });
  t.equal((await next()).stage, 'host');
});

t.test('node: answers 500 to a request of a framework, and keeps the process alive', async (t) => {
  const { options, next } = faults();
  const hooks = createReceiver(options);
  const app = Fastify();
  app.post('/hooks', hooks.node as never);
  t.after(() => app.close());
  const url = `${await listen(app)}/hooks`;
  t.match(await createSender({ url, secret: 'another' }).send(webhook('track')), {
    status: 500,
    body: /internal_error/,
  });
  t.equal((await next()).stage, 'host');
});

/** Bodies that a host breaks, and those that end because the sender hung up. */
const cut = (fields: object) => Object.assign(new Error('aborted'), fields);
const unreadable: [name: string, error: Error, isHost: boolean][] = [
  ['a TypeError, as of two adapters in one process', new TypeError('Cannot read private member #state'), true],
  ['an error of its own', new Error('boom'), true],
  ['a reset connection', cut({ code: 'ECONNRESET' }), false],
  ['a stream that closed early', cut({ code: 'ERR_STREAM_PREMATURE_CLOSE' }), false],
  ['an abort', cut({ name: 'AbortError' }), false],
];

for (const [name, error, isHost] of unreadable) {
  t.test(`answers ${isHost ? 500 : 400} to a body that can't be read because of ${name}`, async (t) => {
    const expected = isHost ? [500, 'internal_error', ['host']] : [400, 'body_unreadable', []];
    const { headers } = signed(body('track'), secret);
    const heard: string[] = [];
    const options = { secret, log: silent, on: { error: (_: unknown, { stage }: Failure) => void heard.push(stage) } };
    const check = async (status: number, text: string) => {
      t.same([status, JSON.parse(text).code, heard.splice(0)], expected);
    };
    const broken = () => new ReadableStream({ pull: (controller) => controller.error(error) });
    for (const hooks of [createReceiver(options), createEdgeReceiver(options)]) {
      const init = { method: 'POST', headers, body: broken(), duplex: 'half' };
      const answer = await hooks.handle(new Request('http://localhost/hooks', init as RequestInit));
      await check(answer.status, await answer.text());
    }

    const hooks = createReceiver(options);
    const url = await serve(t, (request, response) => {
      const stream = new Readable({ read: () => void stream.destroy(error) });
      hooks.node(Object.assign(stream, { method: 'POST', headers: request.headers }) as never, response);
    });
    const answer = await post(url, body('track'));
    await check(answer.status, JSON.stringify(answer.body));

    const app = Fastify();
    t.after(() => app.close());
    app.addHook('preParsing', async () => new Readable({ read: () => {}, construct: (done) => done(error) }));
    app.register(receiver, { path: '/hooks', secret, on: options.on });
    const { statusCode, payload } = await app.inject({
      method: 'POST',
      url: '/hooks',
      headers,
      payload: body('track'),
    });
    await check(statusCode, payload);
  });
}

t.test('request: does not blame the host if the sender is known to have hung up', async (t) => {
  const failures: Failure[] = [];
  const hooks = createReceiver({ secret, log: silent, on: { error: (_, failure) => void failures.push(failure) } });
  const { headers } = signed(body('track'), secret);
  const sender = new AbortController();
  const stream = new ReadableStream({
    pull(controller) {
      sender.abort();
      controller.error(new TypeError('error reading a body from connection'));
    },
  });
  const init = { method: 'POST', headers, body: stream, duplex: 'half', signal: sender.signal };
  t.equal((await hooks.handle(new Request('http://localhost/hooks', init as RequestInit))).status, 400);
  t.same(failures, []);
});

t.test('fastify: passes what hooks of the app throw to on.error', async (t) => {
  const { options, next } = faults();
  const app = Fastify();
  t.after(() => app.close());
  app.addHook('preHandler', async () => {
    throw new Error('the app is broken');
  });
  app.register(receiver, { secret, on: options.on, path: '/hooks' });
  const answer = await app.inject({
    method: 'POST',
    url: '/hooks',
    headers: signed(body('track'), secret).headers,
    payload: body('track'),
  });
  t.equal(answer.statusCode, 500);
  t.equal((await next()).stage, 'host');
});

t.test('request: blames the host, not the sender, for a body that is locked or used', async (t) => {
  const { options, next } = faults();
  const hooks = createReceiver(options);
  const { headers, body: bytes } = signed(body('track'), secret);
  for (const spoil of [(request: Request) => request.body?.getReader(), (request: Request) => request.text()]) {
    const request = new Request('http://localhost/hooks', { method: 'POST', headers, body: bytes });
    await spoil(request);
    const response = await hooks.handle(request);
    t.equal(response.status, 500);
    t.equal((await next()).stage, 'host');
  }
});

t.test("request: answers 500 if the host's request throws, and does not reject", async (t) => {
  const { options, next } = faults();
  const hooks = createReceiver(options);
  const broken = new Proxy(new Request('http://localhost/hooks', { method: 'POST' }), {
    get: (request, name) => {
      if (name === 'headers') throw new Error('no headers today');
      return Reflect.get(request, name);
    },
  });
  t.equal((await hooks.handle(broken)).status, 500);
  t.equal((await next()).stage, 'host');
});

for (const [name, create] of Object.entries({ createReceiver, createEdgeReceiver })) {
  t.test(`${name}: answers 500 if handle is mounted in place of node, and says what to mount`, async (t) => {
    const said: unknown[] = [];
    const hooks = create({ secret, log: silent, on: { error: (error) => void said.push(error) } });
    const mounted = hooks.handle as (...given: unknown[]) => Promise<Response>;
    const url = await serve(t, (request, response) => void mounted(request, response));
    t.match(await post(url, body('track')), { status: 500, body: { code: 'internal_error' } });
    const answered = { headersSent: true, writeHead: () => t.fail('the host has answered already') };
    t.equal((await mounted({}, answered)).status, 500);
    t.match(said, [/mount hooks.node/, /mount hooks.node/]);
  });
}

for (const [edge, host] of Object.entries(hosts)) {
  t.test(
    `${edge}: answers 500 to an unexpected failure between store and handlers, and keeps the process alive`,
    async (t) => {
      const { options, next } = faults({
        store: { ...memoryStore(), begin: () => 'busy' },
        clock: {
          now: Date.now,
          after(ms, callback, options) {
            // The wait for another process's change.
            if (ms === 100) throw new Error('no timer today');
            return systemClock.after(ms, callback, options);
          },
        },
      });
      const running = await host(options);
      t.after(running.close);
      t.equal((await post(running.url, body('track'))).status, 500);
      t.equal((await next()).stage, 'host');
      const { status, body: text } = await createSender({ url: running.url, secret }).batch([webhook('track')]);
      t.match([status, text], [200, /"rejected":\[\{"index":0,"code":"internal_error","retry":true/]);
    },
  );
}

t.test('answers even if the log throws', async (t) => {
  const log = {
    warn() {},
    error() {
      throw new Error('disk full');
    },
  };
  const hooks = createReceiver({ secret, on: { track: () => Promise.reject(new Error('boom')) }, log });
  const { headers, body: bytes } = signed(body('track'), secret);
  const request = new Request('http://localhost/hooks', { method: 'POST', headers, body: bytes });
  t.equal((await hooks.handle(request)).status, 500);
});

for (const [when, fail] of Object.entries({
  'at once': () => {
    throw new Error('disk full');
  },
  later: () => Promise.reject(new Error('disk full')),
})) {
  t.test(`changes no answer if a log fails ${when}, and keeps the process alive`, async (t) => {
    const options = { secret, on: { track: fail }, log: { warn: fail, error: fail } };
    for (const [key, status] of [
      ['another', 401],
      [secret, 500],
    ] as const) {
      const made = signed(body('track'), key);
      const request = () => new Request('http://localhost/hooks', { method: 'POST', ...made });
      for (const create of [createReceiver, createEdgeReceiver])
        t.equal((await create(options).handle(request())).status, status);
      t.equal((await createVerifyAndParse(options)(request())).ok, status === 500);
    }
    await new Promise(setImmediate);
  });
}

/** Begins an upload that never ends; resolves to the status line, or to nothing when it is cut off. */
function idleUpload(url: string): { readonly answer: Promise<string> } {
  const { hostname, port, pathname } = new URL(url);
  const socket = connect(Number(port), hostname);
  const head = `POST ${pathname} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nx-signature: ${'0'.repeat(40)}\r\ncontent-length: 1000\r\n\r\n{`;
  socket.write(head);
  const parts: Buffer[] = [];
  socket.on('data', (part) => parts.push(part)).on('error', () => {});
  return {
    answer: once(socket, 'close').then(() => Buffer.concat(parts).toString('latin1').split('\r\n', 1)[0] ?? ''),
  };
}

for (const [edge, host] of Object.entries(hosts)) {
  t.test(
    `${edge}: answers 408 to a body that does not arrive by the deadline, and closes its connection`,
    async (t) => {
      const running = await host({ secret, on: {}, deadline: 50 } as StandaloneOptions);
      t.after(running.close);
      const uploads = Array.from({ length: 20 }, () => idleUpload(running.url));
      for (const { answer } of uploads) t.match(await answer, /^HTTP\/1\.1 408 /);
    },
  );
}

t.test('fastify: closes the app despite an idle upload', async (t) => {
  const app = Fastify({ forceCloseConnections: false });
  app.register(receiver, { secret, on: {}, path: '/hooks', deadline: 600_000 });
  const url = `${await listen(app)}/hooks`;
  const arrived = new Promise<void>((resolve) => app.server.once('request', () => resolve()));
  const { answer } = idleUpload(url);
  await arrived;
  await app.close();
  t.match(await answer, /^HTTP\/1\.1 (408|503) /);
});
