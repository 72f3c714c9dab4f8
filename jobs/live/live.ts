import { liveSources } from './definitions.ts';
import { LiveLeader, type LiveParts } from './leader.ts';

/** Live audiences and traits (docs/live.md): one leader for each source that they speak as. */
interface Live {
  /** Goes by the configuration as it is now. */
  start(): Promise<void>;
  /** Computes what there is now, where no other process does. */
  once(): Promise<void>;
  stop(): Promise<void>;
}

export function createLive(parts: LiveParts): Live {
  let leaders: readonly LiveLeader[] = [];
  const renew = async () => {
    await Promise.all(leaders.map((leader) => leader.stop()));
    leaders = liveSources(parts.config()).map((source) => new LiveLeader(parts, source));
  };
  return {
    async start() {
      await renew();
      for (const leader of leaders) leader.start();
    },
    async once() {
      await renew();
      await Promise.all(leaders.map((leader) => leader.once()));
    },
    async stop() {
      await Promise.all(leaders.map((leader) => leader.stop()));
    },
  };
}
