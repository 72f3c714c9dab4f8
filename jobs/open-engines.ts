import { join } from 'node:path';
import type { EngineConfig } from '../src/config/config.ts';
import type { Clock } from '../src/kernel/clock.ts';
import { RollcallError } from '../src/kernel/errors.ts';
import type { Remark } from '../src/kernel/remark.ts';
import { Slots } from '../src/kernel/slots.ts';
import type { Store } from '../src/store/port.ts';
import type { SyncConfig } from './audience-or-trait.ts';
import { asRollcallError } from './engine-errors.ts';
import type { FileUse } from './engines/duckdb/files.ts';
import { type HiddenValues, hidingValues } from './engines/hidden-values.ts';
import { type OpenEngine, openEngine as openConfigured } from './engines/open.ts';
import type { Engine } from './engines/port.ts';
import { eventLogFor } from './event-log-access.ts';
import { LIVE_ENGINE } from './live/definitions.ts';
import { liveEngine } from './live/engine.ts';
import type { JobLog } from './run/run-context.ts';
import { refuseForeign } from './snapshot-owner.ts';

/** Work in an engine. Each kind has slots of its own, so that none waits for another. */
type SlotKind = 'run' | 'own' | 'look' | 'plan';

/**
 * Slots of an engine in addition to those of runs: for deletions, live audiences and replays; for people's look-ups; for
 * people's plans, which may take minutes.
 */
const SLOTS = { own: 1, look: 2, plan: 1 } as const;
/** One session stays open. */
const BESIDE_RUNS = SLOTS.own + SLOTS.look + SLOTS.plan + 1;
/** The most queries that wait for a slot. Look-ups take milliseconds. */
const MOST_WAITING = { look: 64, plan: 8 } as const;
/** Milliseconds to wait for a file that another process has open. */
const PATIENCE = { writer: 3_600_000, reader: 10_000, command: 60_000 } as const;
const NOTHING: HiddenValues = new Map();

export type WithEngine = <T>(name: string, readOnly: boolean, work: (engine: Engine) => Promise<T>) => Promise<T>;

/**
 * Opens an engine for a person's query, which ends with the signal or the process.
 *
 * @throws RollcallError `engine_busy` if too many wait already
 */
export type ReadEngine<N = string> = <T>(
  name: N,
  work: (engine: Engine, signal: AbortSignal) => Promise<T>,
  signal?: AbortSignal,
) => Promise<T>;

/** The engine that has a snapshot, and the one that its definition runs in, if that is only read. */
export interface Place {
  readonly engine: string;
  readonly reads?: string | undefined;
  /** True for a single statement that is not trusted. */
  readonly confined?: boolean;
}

/** The configured engines. Each is open only while in use, with limited concurrency. */
export interface OpenEngines {
  /** Waits for a run slot of the engine; resolves to a function that releases it. */
  enter(place: Place, signal: AbortSignal): Promise<() => void>;
  /**
   * Opens an engine for a run that holds a slot. The caller closes it.
   *
   * @param timeout - milliseconds that a statement may take
   * @throws RollcallError `engine_unreachable`
   */
  open(place: Place, signal: AbortSignal, timeout?: number): Promise<Engine>;
  /** Opens an engine for a short task of the process, such as a deletion, in a slot that no reader takes. */
  aside: WithEngine;
  look: ReadEngine;
  /** As `look`, for work that reads snapshots only. A file or session stays open for a moment, for the next one. */
  lookUp: ReadEngine;
  /** As `look`, for queries that may take as long as a run. */
  plan: ReadEngine<Place>;
  /**
   * Does the work with the engine's owner, whichever store it is.
   *
   * @throws RollcallError `engine_unreachable`; `bad_usage` for an engine that doesn't know its owner
   */
  owned<T>(
    name: string,
    readOnly: boolean,
    work: (ownership: NonNullable<Engine['ownership']>) => Promise<T>,
  ): Promise<T>;
  /** The engine's report on itself. @throws RollcallError `engine_unreachable` */
  examine(name: string): Promise<readonly Remark[]>;
}

export interface OpenEnginesOptions {
  readonly config: () => SyncConfig;
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Pick<JobLog, 'info'>;
  readonly openEngine?: OpenEngine | undefined;
  /**
   * Set for a command, which may run while the service does: its readers share a file with those of other commands, and
   * it waits a minute for the service. Called with what it waits for.
   */
  readonly onWait?: ((message: string) => void) | undefined;
  readonly signal: AbortSignal;
}

interface OpenSettings {
  /** Milliseconds that a statement may take. */
  readonly timeout?: number | undefined;
  /** True if a file may stay open for the next such use. */
  readonly stays?: boolean;
}

export function createOpenEngines(options: OpenEnginesOptions): OpenEngines {
  const { config, store, clock, log, onWait, signal: stopping, openEngine = openConfigured } = options;
  const known = new Map<string, Slots>();

  function slots(kind: SlotKind, name: string): Slots {
    // A query in DuckDB holds one of the four threads that the whole process has for them.
    const isInProcess = kind === 'plan' && configured(name, config())?.type === 'duckdb';
    const place = isInProcess ? 'plan' : `${kind} ${name}`;
    const most = kind === 'look' || kind === 'plan' ? MOST_WAITING[kind] : null;
    const limit = () => (kind === 'run' ? concurrencyOf(name, config()) : SLOTS[kind]);
    const found = known.get(place) ?? new Slots(limit, most ? { most, full: () => busy(name) } : null);
    known.set(place, found);
    return found;
  }

  function fileUse(isPatient: boolean, stays: boolean): FileUse {
    if (onWait) return { sharesReading: true, patience: PATIENCE.command, onWait };
    const patience = isPatient ? PATIENCE.writer : PATIENCE.reader;
    return { sharesReading: false, patience, stays, onWait: (message) => log.info({ event: 'engine_wait' }, message) };
  }

  async function open(place: Place, readOnly: boolean, signal: AbortSignal, more: OpenSettings = {}): Promise<Engine> {
    const { engine: name } = place;
    if (name === LIVE_ENGINE) return liveEngine({ store, config, clock });
    const { engine, type } = await openAnyones(place, readOnly, signal, more);
    if (place.confined) return hidingValues(engine, config().hiddenValues ?? NOTHING);
    try {
      await refuseForeign(store, engine, { name, type, readOnly });
    } catch (error) {
      await engine.close();
      throw error;
    }
    return hidingValues(engine, config().hiddenValues ?? NOTHING);
  }

  async function openAnyones(
    { engine: name, reads, confined }: Place,
    readOnly: boolean,
    signal: AbortSignal,
    { timeout, stays = false }: OpenSettings = {},
  ) {
    const engine = configured(name, config());
    const read = reads === undefined ? undefined : configured(reads, config());
    if (!engine || (reads !== undefined && !read)) {
      const message = `The configuration has no engine ${engine ? reads : name}; what was synced with it needs it until it is retired.`;
      throw new RollcallError('engine_unreachable', message);
    }
    const secret = confined ? { confined: secretFiles(config()) } : {};
    const access = { readOnly, signal, timeout, file: fileUse(!readOnly, stays), reads: read, ...secret };
    const log = eventLogFor(engine, config(), store);
    return {
      engine: await openEngine(engine, { folder: config().folder, clock, ...access, ...log }),
      type: engine.type,
    };
  }

  function inSlot<T>(
    kind: SlotKind,
    place: Place,
    readOnly: boolean,
    signal: AbortSignal,
    work: (engine: Engine) => Promise<T>,
    settings: OpenSettings = {},
  ): Promise<T> {
    return slots(kind, place.engine).during(signal, async () => {
      const engine = await open(place, readOnly, signal, settings);
      return work(engine).finally(() => engine.close());
    });
  }

  const reading =
    (kind: 'look' | 'plan', settings: OpenSettings = {}): ReadEngine<Place> =>
    (place, work, signal) => {
      const until = signal ? AbortSignal.any([signal, stopping]) : stopping;
      return inSlot(kind, place, true, until, (engine) => work(engine, until), settings);
    };
  const lookAt = reading('look');
  const look: ReadEngine = (engine, work, signal) => lookAt({ engine }, work, signal);
  const findIn = reading('look', { stays: true });

  return {
    async enter({ engine, reads }, signal) {
      // Before its snapshot moves, the engine that is read still has it.
      const leave = reads === undefined || reads === engine ? () => {} : await slots('run', reads).take(signal);
      const leaveHome = await slots('run', engine)
        .take(signal)
        .catch((error) => {
          leave();
          throw error;
        });
      return () => {
        leaveHome();
        leave();
      };
    },
    open: async (place, signal, timeout) => open(place, false, signal, { timeout }),
    aside: (engine, readOnly, work) => inSlot('own', { engine }, readOnly, stopping, work),
    look,
    lookUp: (engine, work, signal) => findIn({ engine }, work, signal),
    plan: reading('plan'),
    owned: (name, readOnly, work) =>
      slots('own', name)
        .during(stopping, async () => {
          const { engine } = await openAnyones({ engine: name }, readOnly, stopping);
          try {
            if (engine.ownership) return await work(engine.ownership);
            throw new RollcallError(
              'bad_usage',
              `The engine ${name} doesn't know which store its snapshots belong to.`,
            );
          } finally {
            await engine.close();
          }
        })
        .catch((error: unknown) => {
          throw asRollcallError(error);
        }),
    examine: (name) =>
      lookAt(placeOf(name, config()), async (engine): Promise<readonly Remark[]> => {
        const connections = concurrencyOf(name, config()) + BESIDE_RUNS;
        return engine.examine ? engine.examine(connections) : [{ state: 'ok', message: 'it opens' }];
      }).catch((error: unknown) => {
        throw asRollcallError(error);
      }),
  };
}

/** Files of the configuration's folder that SQL which is not trusted must not read, under no name. */
function secretFiles({ folder, store, engines, admin, sourceFiles = [] }: SyncConfig): readonly string[] {
  const databases = [
    ...(store?.url.startsWith('sqlite:') ? [store.url.slice('sqlite:'.length)] : []),
    ...Object.values(engines).flatMap((engine) => (engine.type === 'duckdb' ? engine.path : [])),
  ];
  const beside = ['', '.wal', '-wal', '-shm', '-id', '.moved'];
  return [
    ...[join(folder, '.env'), ...sourceFiles, ...(admin ? [admin.tokenFile] : [])],
    ...databases.flatMap((path) => beside.map((ending) => path + ending)),
  ];
}

/** An engine that is only read works beside the one that has its snapshots. */
function placeOf(name: string, config: SyncConfig): Place {
  const snapshots = configured(name, config)?.snapshots;
  return snapshots === undefined ? { engine: name } : { engine: snapshots, reads: name };
}

function busy(name: string): RollcallError {
  return new RollcallError('engine_busy', `Too many queries wait for the engine ${name}. Try again in a moment.`);
}

/** Engines that may have snapshots: also one that is only read now, but may have been written to before. */
export function enginesWithSnapshots({ engines }: Pick<SyncConfig, 'engines'>): readonly string[] {
  return Object.keys(engines).filter((name) => engines[name]?.snapshots === undefined);
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
