import type { Admission, AudiencePause, AudienceRecord, Candidate, Fence } from '../port.ts';
import { raw, sql } from '../sql.ts';
import { checkFence } from './fence.ts';
import type { Session } from './session.ts';

/** Configurations whose generation is kept; a forgotten one counts as older than all. */
const GENERATIONS_KEPT = 1_000;

export async function audience({ rows }: Session, key: string): Promise<AudienceRecord | null> {
  const [row] = await rows<[string]>(sql`SELECT record FROM rollcall.audience WHERE key = ${key}`);
  return row ? (JSON.parse(row[0]) as AudienceRecord) : null;
}

export async function audiences({ rows, dialect }: Session, keys?: readonly string[]): Promise<AudienceRecord[]> {
  const these = keys ? dialect.oneOf(raw('key'), 'text', keys) : raw('true');
  const found = await rows<[string]>(sql`SELECT record FROM rollcall.audience WHERE ${these} ORDER BY key`);
  return found.map(([record]) => JSON.parse(record) as AudienceRecord);
}

export function saveAudience({ run }: Session, record: AudienceRecord): Promise<number> {
  return run(sql`INSERT INTO rollcall.audience (key, record) VALUES (${record.key}, ${JSON.stringify(record)})
    ON CONFLICT (key) DO UPDATE SET record = excluded.record`);
}

export function moveAudience(session: Session, record: AudienceRecord, fence: Fence): Promise<void> {
  return session.transaction(async (session) => {
    await checkFence(session, fence);
    await saveAudience(session, record);
  });
}

export function forgetAudience(session: Session, key: string, fence: Fence): Promise<void> {
  return session.transaction(async (session) => {
    await checkFence(session, fence);
    const known = await audience(session, key);
    if (!known) return;
    const highest = Math.max(known.sequence, await lastSequence(session, key));
    await session.run(sql`INSERT INTO rollcall.last_sequence (key, sequence) VALUES (${key}, ${highest})
      ON CONFLICT (key) DO UPDATE SET sequence = excluded.sequence`);
    await session.run(sql`DELETE FROM rollcall.audience WHERE key = ${key}`);
  });
}

export async function lastSequence({ rows }: Session, key: string): Promise<number> {
  const [row] = await rows<[number]>(sql`SELECT sequence FROM rollcall.last_sequence WHERE key = ${key}`);
  return row?.[0] ?? 0;
}

/** Locks the counter's row first, so that two configurations never get the same generation. */
export function takeGeneration(session: Session, hash: string): Promise<number> {
  return session.transaction(async (session) => {
    const { rows, run, dialect } = session;
    const [row] = await rows<[string]>(
      sql`SELECT value FROM rollcall.meta WHERE key = 'generation' ${dialect.forUpdate}`,
    );
    const newest = Number(row?.[0] ?? 0);
    if (newest > 0 && (await generationOf(session, hash)) === newest) return newest;
    const generation = newest + 1;
    await run(sql`UPDATE rollcall.meta SET value = ${String(generation)} WHERE key = 'generation'`);
    await run(sql`INSERT INTO rollcall.configuration (hash, generation) VALUES (${hash}, ${generation})
      ON CONFLICT (hash) DO UPDATE SET generation = excluded.generation`);
    await run(sql`DELETE FROM rollcall.configuration WHERE generation <= ${generation - GENERATIONS_KEPT}`);
    return generation;
  });
}

async function generationOf({ rows }: Session, hash: string): Promise<number> {
  const [row] = await rows<[number]>(sql`SELECT generation FROM rollcall.configuration WHERE hash = ${hash}`);
  return row?.[0] ?? 0;
}

export function admit(session: Session, candidate: Candidate, fence: Fence | null): Promise<Admission> {
  const { key, configuration, definition } = candidate;
  return session.transaction(async (session) => {
    if (fence) await checkFence(session, fence);
    const generation = await generationOf(session, configuration);
    const [last] = await session.rows<[generation: number, definition: string]>(
      sql`SELECT generation, definition FROM rollcall.audience_generation WHERE key = ${key}`,
    );
    const lastGeneration = last?.[0] ?? 0;
    const admitted = generation >= lastGeneration || last?.[1] === definition;
    if (admitted && fence) {
      const kept = Math.max(generation, lastGeneration);
      await session.run(sql`INSERT INTO rollcall.audience_generation (key, generation, definition)
        VALUES (${key}, ${kept}, ${definition})
        ON CONFLICT (key) DO UPDATE SET generation = excluded.generation, definition = excluded.definition`);
    }
    return { admitted, generation, lastGeneration };
  });
}

export async function pausedAudiences({ rows, time }: Session): Promise<AudiencePause[]> {
  const found = await rows<[string, number, string]>(
    sql`SELECT key, ${time.read(raw('at'))}, who FROM rollcall.audience_pause ORDER BY key`,
  );
  return found.map(([key, at, by]) => ({ key, at: time.wall(at), by }));
}

export async function pauseAudience({ run, time }: Session, { key, at, by }: AudiencePause): Promise<void> {
  await run(sql`INSERT INTO rollcall.audience_pause (key, at, who) VALUES (${key}, ${time.atWall(at)}, ${by})
    ON CONFLICT (key) DO NOTHING`);
}

export async function resumeAudience({ run }: Session, key: string): Promise<void> {
  await run(sql`DELETE FROM rollcall.audience_pause WHERE key = ${key}`);
}
