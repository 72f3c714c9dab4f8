import fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify';
import { serverOptions } from './collect/server.ts';
import { answerError, answerNotFound } from './http-errors.ts';

interface HealthChecks {
  /** Throws when the process can't go on. */
  readonly alive: () => void;
  /** Throws when messages can't be taken now. */
  readonly ready: () => Promise<void>;
}

/** The listening server with its health routes; the stages register theirs on it. */
export function createHttpServer(
  log: FastifyBaseLogger,
  { alive, ready }: HealthChecks,
  trustedProxies: readonly string[] = [],
): FastifyInstance {
  const server = fastify({
    ...serverOptions,
    trustProxy: trustedProxies.length > 0 ? [...trustedProxies] : false,
    loggerInstance: log,
    logController: new LogController({ disableRequestLogging: true }),
    forceCloseConnections: 'idle',
    return503OnClosing: true,
  });
  server.setErrorHandler(answerError);
  server.setNotFoundHandler(answerNotFound);
  const documentation = { schema: { tags: ['Health'] } };
  server.get('/healthz', documentation, async () => {
    alive();
    return { status: 'ok' };
  });
  server.get('/readyz', documentation, async () => {
    await ready();
    return { status: 'ok' };
  });
  return server;
}
