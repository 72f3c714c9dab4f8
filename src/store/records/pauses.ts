import type { AudiencePause } from '../port.ts';
import { raw, sql } from '../sql.ts';
import type { Session } from './session.ts';

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
