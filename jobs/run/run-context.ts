import type { ExpectConfig, GuardConfig } from '../../src/config/config.ts';
import type { Clock } from '../../src/kernel/clock.ts';
import type { Lease } from '../../src/kernel/keep-lease.ts';
import type { Message } from '../../src/message.ts';
import type {
  AcceptResult,
  AudienceRecord,
  Fence,
  Lane,
  LiveCommit,
  PlanStep,
  Run,
  Store,
} from '../../src/store/port.ts';
import type { SyncConfig } from '../audience-or-trait.ts';
import type { ColumnsOf, ComputedKind, Engine } from '../engines/port.ts';

export type AcceptChanges = (
  source: string,
  messages: readonly Message[],
  options: {
    readonly lane: Lane;
    readonly to?: readonly string[];
    readonly toEach?: (message: Message) => readonly string[];
    readonly step?: PlanStep;
    readonly live?: LiveCommit;
  },
) => Promise<AcceptResult>;

/** A pino logger, or a compatible one. */
export interface JobLog {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** The progress of a run; `total` is null while unknown. */
export interface Progress {
  readonly run: string;
  readonly key: string;
  readonly phase: 'stage' | 'send' | 'wait' | 'commit' | 'done';
  readonly done: number;
  readonly total: number | null;
  /** Destinations whose queues are full (`wait` only). */
  readonly waitsFor?: readonly string[];
  /** Code of the error for which the store takes nothing now (`wait` only). */
  readonly storeError?: string;
}

/**
 * Called with each run that was made or finished.
 *
 * @param isStillHeld - it was held before, and still blocks a new run
 */
export type OnRun = (run: Run, isStillHeld?: boolean) => void;

export interface SubjectDefinition {
  /** For a dbt model, set once its project was read (`withProject`). */
  readonly sql: string;
  readonly hash: string;
  /** Without the engine's name, so that it is the same if only that changes. */
  readonly contentHash: string;
  /** True if ids that mean nobody may be members; absent for false. */
  readonly allowPlaceholders?: boolean | undefined;
  /** Columns that go with an audience's changes. */
  readonly with?: ColumnsOf | undefined;
  readonly guard: GuardConfig;
  readonly expect: ExpectConfig;
  /** The reason not to trust the source of a dbt model; null or absent if there is none. */
  readonly distrust?: string | null;
  /** Milliseconds that the SQL may take. */
  readonly timeout: number;
}

/** The subject of a sync: a configured audience, or one that is no longer configured and can only be retired. */
export interface Subject {
  readonly key: string;
  readonly kind: ComputedKind;
  /** The engine that has its snapshot. */
  readonly engine: string;
  /** The engine that its SQL runs in, if that is only read. */
  readonly reads?: string | undefined;
  readonly source: string;
  readonly definition: SubjectDefinition | null;
}

export interface SyncOrder {
  /** `settle` only sends what destinations that are behind lack. */
  readonly action: 'sync' | 'resync' | 'retire' | 'settle';
  /** The run's time, milliseconds since 1970. */
  readonly asOf: number;
  /** The tick that it serves: nothing is computed if a run began since, unless that failed and is due again. */
  readonly tick?: number | undefined;
  /**
   * Finds the audience that this one was renamed from, which ends with the first sync. Called once others see the run.
   *
   * @throws RollcallError `older_configuration` if a newer configuration has that one
   */
  readonly former?: () => Promise<Subject | null>;
  /** The new key of an audience that is retired because it was renamed. */
  readonly renamedTo?: string | undefined;
  /** True if a person agreed to a rename. */
  readonly renames?: boolean | undefined;
}

/** One subject's run in one process, under its lease. */
export interface RunPlace {
  readonly store: Store;
  readonly accept: AcceptChanges;
  readonly config: () => SyncConfig;
  readonly clock: Clock;
  readonly log: JobLog;
  readonly onProgress: (progress: Progress) => void;
  readonly onHeld: (run: Run) => void;
  readonly subject: Subject;
  readonly lease: Lease<Fence>;
  /** Aborts when the lease is lost or the process stops. */
  readonly signal: AbortSignal;
}

/** A run whose engine is not open yet. */
export interface LeasedContext extends RunPlace {
  /**
   * Opens the engine of the snapshot; the caller closes it.
   *
   * @param engine - another one
   * @throws RollcallError `engine_unreachable`
   */
  open(engine?: string): Promise<RunContext>;
  withEngine(engine: Engine): RunContext;
}

/** A run whose engine is open. */
export interface RunContext extends RunPlace {
  readonly engine: Engine;
  /** Works on another subject as well, under its lease. */
  beside<T>(subject: Subject, work: (context: RunContext) => Promise<T>): Promise<T>;
}

/** The record of an audience that the store doesn't know yet. */
export function newRecord(subject: Subject): AudienceRecord {
  return {
    key: subject.key,
    kind: subject.kind,
    engine: subject.engine,
    reads: subject.reads,
    source: subject.source,
    version: 0,
    sequence: 0,
    definitionHash: subject.definition?.hash ?? '',
    contentHash: subject.definition?.contentHash,
    destinations: [],
    lapsed: [],
    columns: [],
    formerColumns: [],
    lastRunAt: null,
    endedAt: null,
  };
}
