import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';
import type { Receiver } from '../../../receivers/index.ts';

export interface Posted {
  readonly path: string;
  readonly key: string;
  readonly body: Record<string, unknown> & { readonly messageId: string };
}

/**
 * Takes everything, and keeps it by the path that it was posted to: that of a destination.
 *
 * @param kit - answers in place of this server
 */
export async function destinations(t: Test, kit?: Pick<Receiver, 'node'>) {
  const posted: Posted[] = [];
  const refused = new Set<string>();
  const server = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk) => {
      text += String(chunk);
    });
    request.on('end', () => {
      const path = (request.url ?? '').slice(1);
      if (refused.has(path)) response.statusCode = 503;
      else {
        const said = JSON.parse(text);
        const { batch = [said], keys = [String(request.headers['idempotency-key'])] } = said;
        posted.push(...batch.map((body: Posted['body'], index: number) => ({ path, key: keys[index], body })));
        if (kit) return kit.node(Object.assign(request, { rawBody: text }), response);
      }
      return response.end();
    });
  });
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    posted,
    /** Destinations that answer 503. */
    refused,
    /** What a destination got, without repetitions: an answer that is late is no answer. */
    to: (path: string) => [
      ...new Map(posted.filter((each) => each.path === path).map((each) => [each.key, each])).values(),
    ],
    /** The setting of a destination that posts here. */
    named: (name: string, setting: object = {}, batch: object | undefined = undefined) => ({
      ...{ name, sources: ['shop'], sharedSecret: 's' },
      webhooks: [{ url: `http://127.0.0.1:${port}/${name}`, ...(batch ? { batch } : {}) }],
      ...setting,
    }),
  };
}

export const LOCAL = { allow: ['127.0.0.0/8'] };
