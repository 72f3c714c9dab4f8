import { pruneOldest } from '../records/prune-oldest.ts';
import type { StoreContext } from './context.ts';
import { forget } from './queue/seen.ts';
import { Seldom } from './seldom.ts';
import { sessionOf } from './session.ts';

/**
 * Prunes tables that grow at one end. Pruned rows stay in the index until vacuum may remove them, so each scan begins
 * after the last one. A transaction may commit after a later one, so now and then a scan begins at the very front.
 */
export class Pruning {
  private readonly context: StoreContext;
  private readonly seldom: Seldom;
  private attempt = 0;
  private seenBatch = 0;

  constructor(context: StoreContext) {
    this.context = context;
    this.seldom = new Seldom(context.db.clock);
  }

  async prune(before: number, limit: number): Promise<number> {
    await this.seldom.run(async () => {
      const [row] = await this.context.db.patient<[number | null, number | null]>(FRONT);
      this.attempt = (row?.[0] ?? 0) - 1;
      this.seenBatch = (row?.[1] ?? 0) - 1;
    });
    const attempts = await pruneOldest(sessionOf(this.context), 'attempt', before, limit, this.attempt);
    this.attempt = attempts.last;
    const ids = await forget(this.context, limit - attempts.count, this.seenBatch);
    this.seenBatch = ids.last;
    return attempts.count + ids.count;
  }
}

const FRONT = `
  SELECT (SELECT id FROM rollcall.attempt ORDER BY id LIMIT 1), (SELECT id FROM rollcall.seen_batch ORDER BY id LIMIT 1)`;
