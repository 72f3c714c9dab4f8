import type { Clock } from '../../src/kernel/clock.ts';
import type { AudienceRecord, Store } from '../../src/store/port.ts';
import type { SyncConfig } from '../audience-or-trait.ts';
import { hasEngine } from '../open-engines.ts';
import { areBack } from '../run/destination-room.ts';
import { debtsOf } from '../run/owed-membership.ts';
import type { JobLog } from '../run/run-context.ts';

/** How soon after a start or a reload destinations are first looked for that are behind: what is due by schedule goes first. */
const FIRST = 5_000;
/** How often they are looked for, in milliseconds. */
const INTERVAL = 60_000;
/** How often the end of an audience is looked at for what died on the way, in milliseconds. */
const SELDOM = 60 * 60_000;

interface CatchUpOptions {
  readonly config: () => SyncConfig;
  readonly clock: Clock;
  readonly log: JobLog;
  readonly store: Store;
  /** Tells destinations that are behind what they lack; resolves to false if that is not to be tried again soon. */
  readonly settle: (record: AudienceRecord) => Promise<boolean>;
}

/** Soon sends what destinations lack that are back, whatever the schedules of the audiences. */
interface CatchUps {
  start(): void;
  stop(): void;
}

export function createCatchUps({ config, clock, log, store, settle }: CatchUpOptions): CatchUps {
  /** When it failed, by key: that is not tried again every minute. */
  const failures = new Map<string, number>();
  let cancel = () => {};
  let stopped = true;
  let looking = false;

  async function look(): Promise<void> {
    const isBack = await areBack({ store, config });
    for (const record of await store.audiences()) {
      if (stopped) return;
      const { key } = record;
      const now = clock.monotonic();
      if (now - (failures.get(key) ?? Number.NEGATIVE_INFINITY) < SELDOM) continue;
      if (!isDue(record, config(), clock.now(), isBack)) continue;
      if (await settle(record)) failures.delete(key);
      else failures.set(key, now);
    }
  }

  function next(wait = INTERVAL): void {
    cancel = clock.after(wait, async () => {
      if (!looking) {
        looking = true;
        await look().catch((error) =>
          log.warn({ err: error }, 'Could not find out which destinations are behind; trying again'),
        );
        looking = false;
      }
      if (!stopped) next();
    });
  }

  return {
    start() {
      cancel();
      stopped = false;
      next(FIRST);
    },
    stop() {
      stopped = true;
      cancel();
    },
  };
}

/** Leaves alone audiences that are paused, and those whose engine is gone. */
function isDue(
  record: AudienceRecord,
  config: SyncConfig,
  now: number,
  isBack: (destination: string) => boolean,
): boolean {
  const { key, engine, source, endedAt, lastRunAt } = record;
  const own = [...config.audiences, ...config.traits].find((computation) => computation.key === key);
  if (!hasEngine(engine, config)) return false;
  if (own ? own.paused || endedAt !== null : endedAt === null) return false;
  const debts = debtsOf(record, own?.source ?? source, config.destinations);
  if (debts.some(({ destination, leavers }) => !leavers || isBack(destination))) return true;
  return endedAt !== null && now - (lastRunAt ?? endedAt) >= SELDOM;
}
