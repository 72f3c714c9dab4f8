import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { FastifyPluginAsync, FastifyRequest } from 'fastify';
import once from 'lodash/once.js';
import { answerError } from '../http/errors.ts';
import { HIDDEN } from '../http/schemas.ts';
import { made, type PageFile } from './page-files.ts';
import { sendFile } from './pages.ts';

interface DocumentsOptions {
  /** An `onRequest` hook that throws for requests that may not pass. */
  readonly guard: (request: FastifyRequest) => Promise<void>;
}

const PAGE = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>API</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
<script src="/docs/swagger-ui-bundle.js" defer></script>
<script src="/docs/start.js" defer></script>
</head>
<body><div id="swagger-ui"></div></body>
</html>
`;
const START = "SwaggerUIBundle({ url: '/docs/json', dom_id: '#swagger-ui', deepLinking: true });\n";

const HEADERS = {
  'content-security-policy': "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; object-src 'none'",
  'x-content-type-options': 'nosniff',
  'cache-control': 'no-cache',
};

/** The OpenAPI document of the service: `/docs` to read, `/docs/json` and `/docs/yaml` for programs. Made once, on request. */
export const documents: FastifyPluginAsync<DocumentsOptions> = async (app, { guard }) => {
  app.setErrorHandler(answerError);
  const bundled = (name: string) => () => made(name, readFileSync(join(swaggerUi(), name), 'utf8'));
  const serve = (path: string, make: () => PageFile) => {
    const file = once(make);
    app.get(path, { ...HIDDEN, onRequest: guard }, (request, reply) =>
      sendFile(file(), request, reply.headers(HEADERS)),
    );
  };
  for (const path of ['/docs', '/docs/']) serve(path, () => made('index.html', PAGE));
  serve('/docs/json', () => made('api.json', JSON.stringify(app.swagger())));
  serve('/docs/yaml', () => made('api.yaml', app.swagger({ yaml: true })));
  serve('/docs/start.js', () => made('start.js', START));
  for (const name of ['swagger-ui.css', 'swagger-ui-bundle.js']) serve(`/docs/${name}`, bundled(name));
};

function swaggerUi(): string {
  return join(dirname(fileURLToPath(import.meta.resolve('@fastify/swagger-ui'))), 'static');
}
