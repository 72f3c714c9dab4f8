import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import Fastify, { type FastifyInstance } from 'fastify';
import { createReceiver as createEdgeReceiver, type EdgeOptions, type EdgeReceiver } from '../../../receivers/edge.ts';
import { createReceiver, type Log, receiver, type StandaloneOptions } from '../../../receivers/index.ts';

/** A running receiver; `url` is where webhooks go. */
export interface Host {
  url: string;
  close(): Promise<void>;
}

export const silent: Log = { warn() {}, error() {} };

export const listen = async (app: FastifyInstance) => app.listen({ port: 0, host: '127.0.0.1' });

export async function serve(listener: RequestListener, close: () => Promise<void>): Promise<Host> {
  const server = createServer({}, listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`,
    async close() {
      await close();
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

export async function fastifyHost(options: StandaloneOptions): Promise<Host> {
  const app = Fastify();
  app.register(receiver, { ...options, path: '/hooks' });
  return { url: `${await listen(app)}/hooks`, close: () => app.close() };
}

export async function nodeHost(options: StandaloneOptions): Promise<Host> {
  const hooks = createReceiver({ log: silent, ...options });
  return serve(hooks.node, hooks.close);
}

/** Puts `handle` behind node:http, as the servers of Hono and friends do. */
export const requestHost = (options: StandaloneOptions) => behindNode(createReceiver({ log: silent, ...options }));

/** As `requestHost`, by WebCrypto. */
export const edgeHost = (options: StandaloneOptions) =>
  behindNode(createEdgeReceiver({ log: silent, ...options } as EdgeOptions));

export function behindNode(hooks: EdgeReceiver): Promise<Host> {
  return serve(async (incoming, outgoing) => {
    const bodyless = incoming.method === 'GET' || incoming.method === 'HEAD';
    const headers = new Headers();
    for (const [name, value] of Object.entries(incoming.headers)) headers.set(name, String(value));
    const request = new Request(`http://${incoming.headers.host}${incoming.url}`, {
      method: incoming.method ?? 'GET',
      headers,
      ...(bodyless ? {} : { body: Readable.toWeb(incoming) as unknown as ReadableStream, duplex: 'half' }),
    } as RequestInit);
    const response = await hooks.handle(request);
    outgoing.writeHead(response.status, Object.fromEntries(response.headers)).end(await response.text());
  }, hooks.close);
}

/** Every edge of the kit, so that each test of behaviour runs over all of them. */
export const hosts = { fastify: fastifyHost, request: requestHost, node: nodeHost, edge: edgeHost };
