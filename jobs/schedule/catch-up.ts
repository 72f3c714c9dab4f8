import type { Clock } from '../../src/kernel/clock.ts';
import type { AudienceRecord, Store } from '../../src/store/port.ts';
import type { SyncConfig } from '../audience-or-trait.ts';
import { hasEngine } from '../open-engines.ts';
import { areBack } from '../run/destination-room.ts';
import { debtsOf } from '../run/owed-membership.ts';
import type { JobLog } from '../run/run-context.ts';

/** Milliseconds from a start or reload to the first check for destinations that are behind. Due schedules go first. */
const FIRST = 5_000;
/** Milliseconds between checks. */
const INTERVAL = 60_000;
/** Milliseconds between checks of retired audiences for dead messages, and before a failure is retried. */
const SELDOM = 60 * 60_000;

interface CatchUpOptions {
  readonly config: () => SyncConfig;
  readonly clock: Clock;
  readonly log: JobLog;
  readonly store: Store;
  /** Sends destinations that are behind what they lack; resolves to false if it should not be retried soon. */
  readonly settle: (record: AudienceRecord) => Promise<boolean>;
}

/** Sends destinations that are back what they lack, independent of the audiences' schedules. */
interface CatchUps {
  start(): void;
  stop(): void;
}

export function createCatchUps({ config, clock, log, store, settle }: CatchUpOptions): CatchUps {
  /** Times of failures by key, which are not retried every minute. */
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
          log.warn({ err: error }, 'Could not find out which destinations are behind; retrying'),
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

/** False for paused audiences, and those whose engine is not configured. */
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
  if (debts.some(({ destination, isReturn }) => !isReturn || isBack(destination))) return true;
  return endedAt !== null && now - (lastRunAt ?? endedAt) >= SELDOM;
}
