import type { Admission, Candidate, Fence } from '../port.ts';
import { GENERATIONS_KEPT } from '../roster.ts';
import { checkFence } from './accept.ts';
import type { Connection } from './connection.ts';

export function takeGeneration(db: Connection, _now: number, { hash }: { readonly hash: string }): number {
  const newest = Number(db.meta('generation') ?? 0);
  if (newest > 0 && generationOf(db, hash) === newest) return newest;
  const generation = newest + 1;
  db.run("INSERT OR REPLACE INTO meta VALUES ('generation', ?)", String(generation));
  db.run('INSERT OR REPLACE INTO configuration VALUES (?, ?)', hash, generation);
  db.run('DELETE FROM configuration WHERE generation <= ?', generation - GENERATIONS_KEPT);
  return generation;
}

function generationOf(db: Connection, hash: string): number {
  const sql = 'SELECT generation FROM configuration WHERE hash = ?';
  return db.get<{ generation: number }>(sql, hash)?.generation ?? 0;
}

export interface AdmitArguments {
  readonly candidate: Candidate;
  readonly fence: Fence | null;
}

export function admit(db: Connection, _now: number, { candidate, fence }: AdmitArguments): Admission {
  if (fence) checkFence(db, fence);
  const { key, configuration, definition } = candidate;
  const generation = generationOf(db, configuration);
  const last = db.get<{ generation: number; definition: string }>(
    'SELECT generation, definition FROM audience_generation WHERE key = ?',
    key,
  );
  const lastGeneration = last?.generation ?? 0;
  const admitted = generation >= lastGeneration || last?.definition === definition;
  if (admitted && fence) {
    const kept = Math.max(generation, lastGeneration);
    db.run('INSERT OR REPLACE INTO audience_generation VALUES (?, ?, ?)', key, kept, definition);
  }
  return { admitted, generation, lastGeneration };
}
