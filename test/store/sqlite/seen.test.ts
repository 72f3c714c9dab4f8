import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { Connection } from '../../../src/store/sqlite/connection.ts';
import { migrate } from '../../../src/store/sqlite/migrate.ts';
import { SeenIds } from '../../../src/store/sqlite/queue/seen.ts';

const HOUR = 3_600_000;
let files = 0;

/** Processes on one file, each with its own memory of it; buckets of four ids. */
async function processes(folder: string, count: number): Promise<Process[]> {
  files += 1;
  const path = join(folder, `${files}.db`);
  const opened: Process[] = [];
  while (opened.length < count) {
    const db = new Connection(path);
    await migrate(db);
    opened.push({ db, seen: new SeenIds(db, 4) });
  }
  return opened;
}

interface Process {
  readonly db: Connection;
  readonly seen: SeenIds;
}
class Refused extends Error {}

type End = 'commit' | 'refusal' | 'rollback';

/** As `accept` does it: all or nothing; returns the ids that were new. */
async function accept({ db, seen }: Process, ids: readonly number[], now: number, end: End): Promise<number[]> {
  const work = () => {
    seen.begin();
    const fresh = ids.filter((id) => seen.add('shop', `m${id}`));
    if (end === 'refusal') {
      seen.undo();
      throw new Refused();
    }
    seen.write(now);
    if (end === 'rollback') throw new Refused();
    return fresh;
  };
  try {
    return await db.transaction(() => db.savepoint(work));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (end === 'rollback') seen.forget();
    return [];
  }
}

const id = fc.nat(24);
const step = fc.oneof(
  fc.record({
    kind: fc.constant('accept' as const),
    by: fc.nat(1),
    ids: fc.array(id, { minLength: 2, maxLength: 6 }),
    end: fc.constantFrom(
      'commit' as const,
      'commit' as const,
      'commit' as const,
      'refusal' as const,
      'rollback' as const,
    ),
  }),
  fc.record({ kind: fc.constant('prune' as const), by: fc.nat(1) }),
  fc.record({ kind: fc.constant('wait' as const), hours: fc.nat(9) }),
);

t.test('accepts every id once, from whichever process, and knows it for at least a day', async (t) => {
  const folder = t.testdir();
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 30 }), async (steps) => {
      const all = await processes(folder, 2);
      const acceptedAt = new Map<number, number>();
      let now = 0;
      for (const step of steps) {
        if (step.kind === 'wait') now += step.hours * HOUR;
        else if (step.kind === 'prune') {
          const { db, seen } = all[step.by] as Process;
          await db.transaction(() => seen.prune(now));
        } else {
          const fresh = await accept(all[step.by] as Process, step.ids, now, step.end);
          const isKnown = (id: number) => now - (acceptedAt.get(id) ?? Number.NEGATIVE_INFINITY) <= 24 * HOUR;
          if (fresh.some(isKnown)) return false;
          const strange = new Set(step.ids.filter((id) => !acceptedAt.has(id)));
          if (step.end === 'commit' && ![...strange].every((id) => fresh.includes(id))) return false;
          if (new Set(fresh).size !== fresh.length) return false;
          for (const id of fresh) acceptedAt.set(id, now);
        }
      }
      for (const { db } of all) db.close();
      return true;
    }),
    { numRuns: 120 },
  );
  t.pass('120 histories');
});

t.test('keeps nothing after a day and the pruning of each bucket', async (t) => {
  const [one] = (await processes(t.testdir(), 1)) as [Process];
  for (let from = 0; from < 20; from += 5) {
    await accept(one, [from, from + 1, from + 2, from + 3, from + 4], from, 'commit');
  }
  const rows = () =>
    ['seen', 'seen_bucket', 'seen_log'].map((table) => one.db.get(`SELECT count(*) AS n FROM ${table}`)?.['n']);
  t.same(rows(), [4, 4, 0]);
  await accept(one, [99], 20, 'commit');
  for (let call = 0; call < 4; call += 1) await one.db.transaction(() => one.seen.prune(25 * HOUR));
  t.same(rows(), [0, 0, 0]);
  t.same(await accept(one, [0, 99], 25 * HOUR, 'commit'), [0, 99]);
  one.db.close();
});

t.test('accepts a hundred thousand random ids once, in buckets of the usual size', async (t) => {
  const [{ db }] = (await processes(t.testdir(), 1)) as [Process];
  const { seen } = db;
  const batches = Array.from({ length: 100 }, (_, batch) =>
    Array.from({ length: 1_000 }, (_, index) => `${Math.imul(batch * 1_000 + index, 0x9e3779b1) >>> 0}-id`),
  );
  const fresh = async () => {
    let count = 0;
    for (const batch of batches) {
      await db.transaction(() => {
        seen.begin();
        count += batch.filter((id) => seen.add('shop', id)).length;
        seen.write(0);
      });
    }
    return count;
  };
  t.equal(await fresh(), 100_000);
  t.equal(await fresh(), 0);
  db.close();
});
