import type { EngineConfig } from '../src/config/config.ts';
import type { Clock } from '../src/kernel/clock.ts';
import { RollcallError } from '../src/kernel/errors.ts';
import type { Remark } from '../src/kernel/remark.ts';
import type { Store } from '../src/store/port.ts';
import type { SyncConfig } from './audience-or-trait.ts';
import { asRollcallError } from './engine-errors.ts';
import { EngineSlots } from './engine-slots.ts';
import { type HiddenValues, hidingValues } from './engines/hidden-values.ts';
import { type OpenEngine, openEngine as openConfigured } from './engines/open.ts';
import type { Engine } from './engines/port.ts';
import { eventLogFor } from './event-log-access.ts';
import { LIVE_ENGINE } from './live/definitions.ts';
import { liveEngine } from './live/engine.ts';

/** Slots for people's queries and deletions, which don't wait for runs. */
const ASIDE = 2;
const NOTHING: HiddenValues = new Map();

export type WithEngine = <T>(name: string, readOnly: boolean, work: (engine: Engine) => Promise<T>) => Promise<T>;

/** The configured engines. Each is open only while in use, with limited concurrency. */
export interface OpenEngines {
  /** Waits for a run slot of the engine; resolves to a function that releases it. */
  enter(name: string, signal: AbortSignal): Promise<() => void>;
  /**
   * Opens an engine for a run that holds a slot. The caller closes it.
   *
   * @param timeout - milliseconds that a statement may take
   * @throws RollcallError `engine_unreachable`
   */
  open(name: string, timeout?: number): Promise<Engine>;
  /** Opens an engine for a short task without waiting for runs. */
  aside: WithEngine;
  /** The engine's report on itself. @throws RollcallError `engine_unreachable` */
  examine(name: string): Promise<readonly Remark[]>;
}

interface OpenEnginesOptions {
  readonly config: () => SyncConfig;
  readonly store: Store;
  readonly clock: Clock;
  readonly openEngine?: OpenEngine | undefined;
  readonly signal: AbortSignal;
}

export function createOpenEngines({
  config,
  store,
  clock,
  signal,
  openEngine = openConfigured,
}: OpenEnginesOptions): OpenEngines {
  const runs = new Map<string, EngineSlots>();
  const others = new Map<string, EngineSlots>();

  function open(name: string, readOnly: boolean, timeout?: number): Promise<Engine> {
    if (name === LIVE_ENGINE) return Promise.resolve(liveEngine({ store, config, clock }));
    const engine = configured(name, config());
    if (engine) {
      const log = eventLogFor(engine, config(), store);
      const opening = openEngine(engine, { folder: config().folder, clock, readOnly, timeout, ...log });
      return opening.then((opened) => hidingValues(opened, config().hiddenValues ?? NOTHING));
    }
    const message = `The configuration has no engine ${name}; what was synced with it needs it until it is retired.`;
    throw new RollcallError('engine_unreachable', message);
  }

  const aside: WithEngine = async (name, readOnly, work) => {
    const leave = await placesOf(others, name, () => ASIDE).take(signal);
    try {
      const engine = await open(name, readOnly);
      return await work(engine).finally(() => engine.close());
    } finally {
      leave();
    }
  };

  return {
    enter: (name, signal) => placesOf(runs, name, () => concurrencyOf(name, config())).take(signal),
    open: async (name, timeout) => open(name, false, timeout),
    aside,
    examine: (name) =>
      aside(name, true, async (engine): Promise<readonly Remark[]> => {
        const connections = concurrencyOf(name, config()) + ASIDE;
        return engine.examine ? engine.examine(connections) : [{ state: 'ok', message: 'it opens' }];
      }).catch((error: unknown) => {
        throw asRollcallError(error);
      }),
  };
}

/** True for configured engines and for the engine of live audiences. */
export function hasEngine(name: string, { engines }: Pick<SyncConfig, 'engines'>): boolean {
  return name === LIVE_ENGINE || Object.hasOwn(engines, name);
}

/** Concurrent runs of live audiences, which only read the store and send. */
const LIVE_RUNS = 4;

function concurrencyOf(name: string, config: SyncConfig): number {
  return name === LIVE_ENGINE ? LIVE_RUNS : (configured(name, config)?.concurrency ?? 1);
}

function configured(name: string, { engines }: SyncConfig): EngineConfig | undefined {
  return Object.hasOwn(engines, name) ? engines[name] : undefined;
}

function placesOf(places: Map<string, EngineSlots>, name: string, limit: () => number): EngineSlots {
  const known = places.get(name) ?? new EngineSlots(limit);
  places.set(name, known);
  return known;
}
