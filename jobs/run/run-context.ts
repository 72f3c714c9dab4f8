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
import type { ComputedKind, Engine } from '../engines/port.ts';

/** The one way in, as far as a sync uses it. */
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

/** A pino logger, or what looks like one. */
export interface JobLog {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** How far a run is; `total` is null while it is not known. */
export interface Progress {
  readonly run: string;
  readonly key: string;
  readonly phase: 'stage' | 'send' | 'wait' | 'commit' | 'done';
  readonly done: number;
  readonly total: number | null;
  /** Destinations whose queues are full (`wait` only). */
  readonly waitsFor?: readonly string[];
  /** Code of the failure for which the store takes nothing now (`wait` only). */
  readonly storeError?: string;
}

/**
 * Gets each run that was made or finished, when it is.
 *
 * @param isStillHeld - it was held before, and nothing became of it: it stands in the way of a new one
 */
export type OnRun = (run: Run, isStillHeld?: boolean) => void;

export interface SubjectDefinition {
  readonly sql: string;
  readonly hash: string;
  readonly guard: GuardConfig;
  readonly expect: ExpectConfig;
  /** How long the SQL may take, in milliseconds. */
  readonly timeout: number;
}

/** The subject of a sync: an audience of the configuration, or one that is gone from it and can only be retired. */
export interface Subject {
  readonly key: string;
  readonly kind: ComputedKind;
  readonly engine: string;
  readonly source: string;
  readonly definition: SubjectDefinition | null;
}

/** An order for one subject. */
export interface SyncOrder {
  /** `settle`: sends nothing but what destinations lack that are behind. */
  readonly action: 'sync' | 'resync' | 'retire' | 'settle';
  /** The run's time, milliseconds since 1970. */
  readonly asOf: number;
  /** The tick that it is for: nothing is computed when a run began since, unless that failed and is due again. */
  readonly tick?: number | undefined;
  /**
   * Finds the audience that this one was until now: it ends with the first sync of the new name. Asked once others can see the run.
   *
   * @throws RollcallError `older_configuration` where that one is a newer configuration's
   */
  readonly former?: () => Promise<Subject | null>;
  /** Whether a person agreed to a change of the name. */
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

/** Its engine is not open yet. */
export interface LeasedContext extends RunPlace {
  /** Opens it; who does so closes it. @throws RollcallError `engine_unreachable` */
  open(): Promise<RunContext>;
  /** Goes on with one that is open. */
  withEngine(engine: Engine): RunContext;
}

/** With its engine open. */
export interface RunContext extends RunPlace {
  readonly engine: Engine;
  /** Does something to another subject meanwhile, under its lease too and in the same engine. */
  beside<T>(subject: Subject, work: (context: RunContext) => Promise<T>): Promise<T>;
}

/** An audience that the store knows nothing of yet. */
export function newRecord(subject: Subject): AudienceRecord {
  return {
    key: subject.key,
    kind: subject.kind,
    engine: subject.engine,
    source: subject.source,
    version: 0,
    sequence: 0,
    definitionHash: subject.definition?.hash ?? '',
    destinations: [],
    lapsed: [],
    columns: [],
    formerColumns: [],
    lastRunAt: null,
    endedAt: null,
  };
}
