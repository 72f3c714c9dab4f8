/** Moments at which crash tests end the process. */
export type Failpoint =
  | 'accept'
  | 'commit'
  | 'claim'
  | 'post'
  | 'settle'
  | 'retry'
  | 'migration'
  | 'sync_stage'
  | 'sync_stream'
  | 'sync_commit'
  /** A snapshot is written where it moves to, and removed where it was. */
  | 'move_written'
  | 'move_removed'
  /** A step of the live computation: it has been read, it is written. */
  | 'live_step'
  | 'live_stepped'
  /** A part of building live state is written, or of making a definition live. */
  | 'live_build'
  /** A part of a send of past events is queued. */
  | 'events_sent'
  /** Files of the event log are planned, written, in place, part of the log; others are about to be removed, or are. */
  | 'log_planned'
  | 'log_written'
  | 'log_placed'
  | 'log_listed'
  | 'log_removing'
  | 'log_removed'
  /** A deletion is noted next to the files, but not yet in the store. */
  | 'log_noted'
  /** The table of the event log: a partition is being made or dropped, or has been; a day is without its deleted users. */
  | 'log_altered'
  | 'log_erased';

/** The fault: the process ends as by `kill -9`, or only the thread that passes the failpoint fails. */
export type FailpointFault = 'kill' | 'throw' | 'memory' | 'hang';

/** A failpoint that fires after it was passed a number of times. */
export interface Armed {
  readonly name: Failpoint;
  readonly passes: number;
  readonly fault: FailpointFault;
}

let armed: Armed | null = null;
let left = 0;

/** Makes the fault happen the `passes`-th time that this process, or its store's thread, passes. For tests only. */
export function armFailpoint(name: Failpoint, passes: number, fault: FailpointFault = 'kill'): void {
  armed = { name, passes, fault };
  left = passes;
}

export function disarmFailpoint(): void {
  armed = null;
}

/** The armed failpoint, to hand on to a worker thread. */
export function armedFailpoint(): Armed | null {
  return armed;
}

/** Times that this thread has passed the armed failpoint. */
export const failpointPasses = (): number => (armed?.passes ?? 0) - left;

export function failpoint(name: Failpoint): void {
  if (armed?.name !== name) return;
  left -= 1;
  if (left <= 0) FAULTS[armed.fault]();
}

const FAULTS: Readonly<Record<FailpointFault, () => void>> = {
  kill: () => void process.kill(process.pid, 'SIGKILL'),
  /** Throws later, so that nobody catches it. */
  throw() {
    setImmediate(() => {
      throw new Error('a fault that a test asked for');
    });
  },
  memory() {
    for (const hoard: object[] = []; ; ) hoard.push(Array.from({ length: 100_000 }, (_, index) => ({ index })));
  },
  hang: () => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0),
};
