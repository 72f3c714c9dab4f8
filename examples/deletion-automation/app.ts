import type { DatabaseSync } from 'node:sqlite';
import { onDelete, type Secret } from '@rollcall/receivers';
import Fastify, { type FastifyInstance } from 'fastify';
import { createAutomation, type OutsideStep } from './automation.ts';

interface Parts {
  db: DatabaseSync;
  secret: Secret;
  outside: readonly OutsideStep[];
}

/** The customer's app: takes deletion notices, and shows which deletions are confirmed. */
export function createApp({ db, secret, outside }: Parts): FastifyInstance {
  const app = Fastify();
  app.register(onDelete, { path: '/deletions', secret, handler: createAutomation(db, outside) });
  app.get('/deletions', async () => db.prepare('select * from deletion order by requested_at').all());
  return app;
}
