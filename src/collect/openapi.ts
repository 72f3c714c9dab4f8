import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance } from 'fastify';
import fp from 'fastify-plugin';

interface OpenApiOptions {
  readonly serviceName: string;
  readonly version: string;
}

/** Documents all routes registered after it: `/docs` to read, `/docs/json` and `/docs/yaml` for programs. */
export const openApi = fp(
  async (app: FastifyInstance, { serviceName, version }: OpenApiOptions) => {
    await app.register(swagger, {
      openapi: {
        openapi: '3.1.0',
        info: { title: serviceName, version, description: 'Collection of messages and deletion requests.' },
        components: {
          securitySchemes: {
            writeKey: { type: 'http', scheme: 'basic', description: "A source's write key as user, no password." },
            adminToken: { type: 'http', scheme: 'bearer' },
          },
        },
      },
    });
    await app.register(swaggerUi, { routePrefix: '/docs', staticCSP: true });
  },
  { name: 'rollcall-openapi', fastify: '5.x' },
);
