import type { Admission, Candidate, Fence } from '../port.ts';
import { GENERATIONS_KEPT } from '../roster.ts';
import { checkFence } from './accept-alone.ts';
import type { Context } from './context.ts';
import type { Session } from './database.ts';

/** The counter's row is locked first, so that two configurations never get the same generation. */
export function takeGeneration({ db }: Context, hash: string): Promise<number> {
  return db.transaction(async (session) => {
    const [row] = await session.rows<[string]>("SELECT value FROM rollcall.meta WHERE key = 'generation' FOR UPDATE");
    const newest = Number(row?.[0] ?? 0);
    if (newest > 0 && (await generationOf(session, hash)) === newest) return newest;
    const generation = newest + 1;
    await session.run("UPDATE rollcall.meta SET value = $1 WHERE key = 'generation'", [String(generation)]);
    await session.run(
      `INSERT INTO rollcall.configuration (hash, generation) VALUES ($1, $2)
       ON CONFLICT (hash) DO UPDATE SET generation = excluded.generation`,
      [hash, generation],
    );
    await session.run('DELETE FROM rollcall.configuration WHERE generation <= $1', [generation - GENERATIONS_KEPT]);
    return generation;
  });
}

async function generationOf(session: Session, hash: string): Promise<number> {
  const sql = 'SELECT generation FROM rollcall.configuration WHERE hash = $1';
  return (await session.rows<[number]>(sql, [hash]))[0]?.[0] ?? 0;
}

export function admit({ db }: Context, candidate: Candidate, fence: Fence | null): Promise<Admission> {
  const { key, configuration, definition } = candidate;
  return db.transaction(async (session) => {
    if (fence) await checkFence(session, fence);
    const generation = await generationOf(session, configuration);
    const [last] = await session.rows<[generation: number, definition: string]>(
      'SELECT generation, definition FROM rollcall.audience_generation WHERE key = $1',
      [key],
    );
    const lastGeneration = last?.[0] ?? 0;
    const admitted = generation >= lastGeneration || last?.[1] === definition;
    if (admitted && fence) {
      await session.run(
        `INSERT INTO rollcall.audience_generation (key, generation, definition) VALUES ($1, $2, $3)
         ON CONFLICT (key) DO UPDATE SET generation = excluded.generation, definition = excluded.definition`,
        [key, Math.max(generation, lastGeneration), definition],
      );
    }
    return { admitted, generation, lastGeneration };
  });
}
