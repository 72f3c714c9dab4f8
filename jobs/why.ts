import type { AttemptRecord, DeadLetter, Run, Store } from '../src/store/port.ts';
import { conflictKey, type SyncConfig } from './computation.ts';
import type { Subject } from './context.ts';
import type { Engine } from './engines/port.ts';
import { missing } from './snapshot.ts';

const RECENT = 1000;

/** One user's story in one audience or trait. */
export interface Story {
  readonly key: string;
  readonly user: string;
  readonly member: boolean;
  /** JSON text of the traits object (traits only). */
  readonly value: string | null;
  /** The run since which it is so; null when the user was never in, or the run is no longer known. */
  readonly since: Run | null;
  /** Runs of this audience that are not done: what they bring is still to come. */
  readonly unfinished: readonly Run[];
  /** What was posted about it, newest last, as far as the attempt log reaches. */
  readonly attempts: readonly AttemptRecord[];
  readonly deadLetters: readonly DeadLetter[];
}

export interface StoryParts {
  readonly store: Pick<Store, 'audience' | 'runs' | 'attempts' | 'deadLetters'>;
  readonly engine: Engine;
  readonly subject: Subject;
  readonly config: () => SyncConfig;
}

/** @throws RollcallError `snapshot_lost`, `engine_changed` */
export async function tellStory(parts: StoryParts, user: string): Promise<Story> {
  const { store, engine, subject } = parts;
  const { key } = subject;
  const record = await store.audience(key);
  if (record && (await engine.snapshot(key)).version < record.version) throw missing(parts, record);
  const standing = (await engine.lookup(key, [user])).get(user);
  const runs = await store.runs({ key, limit: RECENT });
  const ids = new Set(runs.map(({ id }) => id));
  const attempts = await store.attempts({ userId: user, limit: RECENT });
  const letters = await store.deadLetters({
    userId: user,
    conflictPrefix: conflictKey(key, user),
    limit: RECENT,
  });
  return {
    key,
    user,
    member: standing?.present ?? false,
    value: standing?.value ?? null,
    since: runs.find(({ state, toVersion }) => state === 'done' && toVersion === standing?.since) ?? null,
    unfinished: runs.filter(({ state }) => ['staged', 'held', 'sending', 'committed'].includes(state)),
    attempts: attempts
      .filter(({ messageId }) => ids.has(messageId.slice(0, messageId.indexOf(':'))))
      .toSorted((a, b) => a.at - b.at),
    deadLetters: letters.filter(({ conflict }) => conflict === conflictKey(key, user)),
  };
}
