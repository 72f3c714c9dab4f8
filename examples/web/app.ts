import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import Fastify, { type FastifyInstance } from 'fastify';

export interface Options {
  /** Where Rollcall answers. */
  readonly rollcall: string;
  /** The folder `node_modules` that has the two libraries. */
  readonly libraries: string;
  readonly onWebhook: (body: Record<string, unknown>) => void;
}

const LIBRARIES = {
  segment: '@segment/analytics-next/dist/umd/index.js',
  rudder: '@rudderstack/analytics-js/dist/npm/modern/bundled/umd/index.js',
} as const;

/** The pages, on another origin than Rollcall, and the receiver of what they send. */
export function createApp({ rollcall, libraries, onWebhook }: Options): FastifyInstance {
  const app = Fastify();
  for (const [name, script] of Object.entries(LIBRARIES)) {
    const page = readFileSync(join(import.meta.dirname, `${name}.html`), 'utf8');
    app.get(`/${name}`, (_request, reply) =>
      reply.type('text/html').send(page.replace('http://127.0.0.1:8080', rollcall)),
    );
    app.get(`/${name}.js`, (_request, reply) =>
      reply.type('text/javascript').send(readFileSync(join(libraries, script))),
    );
  }
  app.get('/gone', (_request, reply) => reply.type('text/html').send('<link rel="icon" href="data:,"><h1>Bye</h1>'));
  app.post('/hooks', async (request) => {
    onWebhook(request.body as Record<string, unknown>);
    return {};
  });
  return app;
}
