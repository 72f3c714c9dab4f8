import { createAccept } from '../../src/accept.ts';
import { createAgent } from '../../src/deliver/http/agent.ts';
import { Worker } from '../../src/deliver/worker.ts';
import { endpointId } from '../../src/destination.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { silentLogger } from '../../src/kernel/log.ts';
import { migratePostgres } from '../../src/store/postgres/migrate.ts';
import { openPostgresStore } from '../../src/store/postgres/store.ts';
import { type Driver, SECRET, type Work } from './work.ts';

export async function rollcall({ database, sink }: Work): Promise<Driver> {
  await migratePostgres(database);
  const clock = systemClock;
  const store = await openPostgresStore({ url: database, maxQueued: 10_000_000, clock });
  const endpoints = [{ id: endpointId('crm', sink), url: `${sink}/`, headers: {} }];
  const destination = { name: 'crm', enabled: true, sources: ['shop'], secrets: [SECRET], endpoints } as const;
  const destinations = [{ ...destination, require: 'any', ratePerSecond: null } as const];
  const agent = createAgent({ allow: ['127.0.0.0/8'], ca: [], proxy: null });
  const log = silentLogger;
  const common = { serviceName: 'Rollcall', attemptRetention: () => 86_400_000, removedAfter: () => 86_400_000, log };
  const worker = new Worker({ store, clock, agent, destinations, ...common });
  const accept = createAccept(store, () => destinations, worker);
  await worker.start();
  return {
    enqueue: (messages) =>
      accept(
        'shop',
        messages.map(({ id, userId, body }) => ({
          type: 'track' as const,
          messageId: id,
          userId,
          body,
          integrations: null,
        })),
      ),
    async stop() {
      await worker.stop();
      await store.close();
    },
  };
}
