import { liveSources } from './definitions.ts';
import { LiveLeader, type LiveParts } from './leader.ts';

/** Live audiences and traits (docs/live.md), with a leader for each source that they send as. */
interface Live {
  /** Starts with the current configuration. */
  start(): Promise<void>;
  /** Catches up with the log once, unless leaders are running. */
  once(): Promise<void>;
  stop(): Promise<void>;
}

export function createLive(parts: LiveParts): Live {
  const leaders = new Set<LiveLeader>();
  let isStarted = false;
  /** Rises whenever all leaders end, so that a pending start is cancelled. */
  let ends = 0;
  /** Also adds leaders for sources of which only state is left. */
  const addLeaders = async () => {
    const before = ends;
    const kept = (await parts.store.live.allStates()).map(({ source }) => source);
    if (ends > before) return [];
    const sources = new Set([...liveSources(parts.config()), ...kept]);
    const added = [...sources].map((source) => new LiveLeader(parts, source));
    for (const leader of added) leaders.add(leader);
    return added;
  };
  const stop = async () => {
    ends += 1;
    const all = [...leaders];
    leaders.clear();
    await Promise.all(all.map((leader) => leader.stop()));
  };
  return {
    async start() {
      isStarted = true;
      await stop();
      for (const leader of await addLeaders()) leader.start();
    },
    async once() {
      if (isStarted) return;
      const added = await addLeaders();
      await Promise.all(added.map((leader) => leader.once())).finally(() => {
        for (const leader of added) leaders.delete(leader);
      });
    },
    stop,
  };
}
