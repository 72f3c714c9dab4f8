import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock } from '../../src/kernel/clock.ts';
import type { Claim, Settlement, Queue as StoreQueue } from '../../src/store/port.ts';
import { migratePostgres } from '../../src/store/postgres/migrate.ts';
import { openPostgresStore } from '../../src/store/postgres/store.ts';
import { BATCH, messageMaker } from '../scale/work.ts';
import { type Queue, WAITING } from './queue.ts';

const CLAIM = 500;
const LEASE = 60_000;

/**
 * The store's verbs, without HTTP: one process's store accepts, another's claims and settles, in batches as in production.
 * So every delivery is written three times (accepted, claimed, deleted).
 */
export async function rollcall(url: string): Promise<Queue> {
  await migratePostgres(url);
  const options = { url, maxQueued: 1_000_000, clock: systemClock };
  const [inward, outward] = [await openPostgresStore(options), await openPostgresStore(options)];
  const owner = await outward.join(LEASE);
  const stop = new AbortController();
  const housekeeping = keepHouse(outward, owner, stop).catch((error) => stop.abort(error));
  const message = messageMaker(0.8);
  let accepted = 0;
  let taken = 0;

  async function accept(): Promise<void> {
    const messages = Array.from({ length: BATCH }, () => {
      accepted += 1;
      const { id, userId, body } = message(accepted);
      const routed = { destinations: ['crm'], lane: 'live', conflict: null } as const;
      return { source: 'shop', messageId: id, type: 'track' as const, userId, body, ...routed };
    });
    await inward.accept({ messages, step: null });
  }

  while (accepted < WAITING) await accept();
  return {
    /** Several claims at a time are on their way, as from a worker whose attempts end while it claims. */
    async deliver(count) {
      let settling: Promise<void> = Promise.resolve();
      for (const end = taken + count; taken < end; ) {
        stop.signal.throwIfAborted();
        const limit = Math.min(CLAIM, end - taken);
        const { claims } = await outward.claim(owner, [{ destination: 'crm', limit, order: 'usual' }]);
        const mine = claims[0] ?? [];
        taken += mine.length;
        const writing = [];
        while (accepted < taken + WAITING) writing.push(accept());
        await settling;
        settling = outward.settle(owner, mine.map(delivered));
        await Promise.all(writing);
      }
      await settling;
    },
    async close() {
      stop.abort();
      await housekeeping;
      await inward.close();
      await outward.close();
    },
  };
}

/** A worker's housekeeping beside its work. If it fails, the measurement ends. */
async function keepHouse(store: StoreQueue, owner: number, stop: AbortController): Promise<void> {
  for (;;) {
    await sleep(5_000, undefined, { signal: stop.signal }).catch(() => undefined);
    if (stop.signal.aborted) return;
    if (!(await store.heartbeat(owner, LEASE))) throw new Error('the lease ended');
    await store.rescue();
  }
}

function delivered(claim: Claim): Settlement {
  const attempt = { endpoint: 'crm-abcdef12', at: Date.now(), ms: 3, outcome: 'success', status: 200 } as const;
  return { claim, verdict: { kind: 'delivered' }, attempts: [{ ...attempt, error: null, response: null }] };
}
