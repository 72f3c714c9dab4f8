import { pruneAttempts } from '../records/attempts.ts';
import type { Context } from './context.ts';
import { forget } from './seen.ts';
import { sessionOf } from './session.ts';

export async function prune(context: Context, before: number, limit: number): Promise<number> {
  const attempts = await pruneAttempts(sessionOf(context), before, limit);
  return attempts + (await forget(context, limit - attempts));
}
