import swagger from '@fastify/swagger';
import type { FastifyInstance } from 'fastify';
import fp from 'fastify-plugin';

interface OpenApiOptions {
  readonly serviceName: string;
  readonly version: string;
}

/** Collects the document of all routes registered after it. `src/admin/documents.ts` serves it. */
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
  },
  { name: 'rollcall-openapi', fastify: '5.x' },
);
