import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Fastify from 'fastify';
import { pino } from 'pino';
import type { Test } from 'tap';
import { sign } from '../../receivers/signature.ts';
import { App } from '../../src/app.ts';
import { loadConfig } from '../../src/config/load.ts';
import { ADMIN } from '../helpers/admin.ts';
import { storeUrl } from '../helpers/store.ts';

const SECRET = 'a secret of the test';

export interface Webhook {
  readonly type: string;
  readonly userId?: string;
  readonly [field: string]: unknown;
}

export interface Inbox {
  readonly url: string;
  /** Bodies whose signature was right, in order of arrival. */
  readonly webhooks: Webhook[];
  /** Answered with from now on. */
  status: number;
  /** Resolves once so many have arrived. */
  arrived(count: number): Promise<void>;
}

/** An app that takes webhooks and believes only the signed ones. */
export async function startInbox(t: Test): Promise<Inbox> {
  const app = Fastify();
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, body, done) => done(null, body));
  let told = () => {};
  const inbox = {
    url: '',
    webhooks: [] as Webhook[],
    status: 200,
    async arrived(count: number) {
      while (inbox.webhooks.length < count) await new Promise<void>((resolve) => (told = resolve));
    },
  };
  app.post('/hooks', async (request, reply) => {
    const body = request.body as string;
    if (request.headers['x-signature'] !== sign(body, SECRET)) return reply.code(401).send();
    if (inbox.status === 200) inbox.webhooks.push(JSON.parse(body));
    told();
    return reply.code(inbox.status).send();
  });
  t.teardown(() => app.close());
  inbox.url = `${await app.listen({ host: '127.0.0.1', port: 0 })}/hooks`;
  return inbox;
}

/** A configuration file whose sources are connected to an inbox as they say. */
export function writeConfig(
  t: Test,
  inbox: Inbox,
  sources: Readonly<Record<string, { readonly connected: boolean; readonly rateLimit?: string }>>,
): string {
  const connected = Object.entries(sources).flatMap(([id, source]) => (source.connected ? [id] : []));
  const config = {
    store: storeUrl(t),
    listen: { host: '127.0.0.1', port: 0 },
    network: { allow: ['127.0.0.0/8'] },
    admin: ADMIN,
    sources: Object.entries(sources).map(([id, { connected, ...source }]) => ({ id, writeKey: `WK_${id}`, ...source })),
    destinations: [{ name: 'app', sources: connected, sharedSecret: SECRET, webhooks: [{ url: inbox.url }] }],
  };
  const file = join(t.testdir(), 'rollcall.yaml');
  writeFileSync(file, JSON.stringify(config));
  return file;
}

/** The whole service in this process, on real files and sockets. */
export async function startApp(t: Test, config: string): Promise<App & { readonly address: string }> {
  const app = await App.create(loadConfig(config), { log: pino({ level: 'silent' }) });
  t.teardown(() => app.close());
  await app.start({ collect: true, schedules: false });
  return app as App & { readonly address: string };
}
