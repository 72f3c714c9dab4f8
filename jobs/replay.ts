import type { Clock } from '../src/clock.ts';
import type { Store } from '../src/store/port.ts';
import { bodyBuilder } from './body.ts';
import type { WithEngine } from './runner.ts';

/** The body that tells what is so now, for a dead change that is sent again: older than any change to come. */
export async function currentBody(
  store: Pick<Store, 'audience' | 'runs'>,
  clock: Clock,
  withEngine: WithEngine,
  { key, user }: { readonly key: string; readonly user: string },
): Promise<string> {
  const record = await store.audience(key);
  const at = clock.now();
  if (!record) {
    // Retired: nobody is in it.
    return bodyBuilder({ key, kind: 'audience', columns: [], removed: [], at })(user, false, null, at * 1000);
  }
  const [unfinished] = await store.runs({ key, states: ['sending'], limit: 1 });
  return withEngine(record.engine, true, async (engine) => {
    const staged = unfinished ? await engine.staged(unfinished.id) : null;
    const standing = (await engine.lookup(key, [user], staged?.plan)).get(user);
    const body = bodyBuilder({ key, kind: record.kind, columns: record.columns, removed: [], at });
    const sequence = record.sequence + (staged?.total ?? 0);
    return body(user, standing?.present ?? false, standing?.value ?? null, sequence);
  });
}
