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
  /** The event log: files are written, are in their place, are part of the log; those they replace are removed. */
  | 'log_written'
  | 'log_placed'
  | 'log_recorded'
  | 'log_removed';

/** What happens there: the process ends as by `kill -9`, or only the thread that comes by fails. */
export type Fault = 'kill' | 'throw' | 'memory' | 'hang';

/** A failpoint that waits to be passed so many times. */
export interface Armed {
  readonly name: Failpoint;
  readonly passes: number;
  readonly fault: Fault;
}

let armed: Armed | null = null;
let left = 0;

/** Has the fault happen the `passes`-th time that this process, or its store's thread, comes by. For tests only. */
export function armFailpoint(name: Failpoint, passes: number, fault: Fault = 'kill'): void {
  armed = { name, passes, fault };
  left = passes;
}

/** What was armed, to hand on to a worker thread. */
export function armedFailpoint(): Armed | null {
  return armed;
}

export function failpoint(name: Failpoint): void {
  if (armed?.name !== name) return;
  left -= 1;
  if (left <= 0) FAULTS[armed.fault]();
}

const FAULTS: Readonly<Record<Fault, () => void>> = {
  kill: () => void process.kill(process.pid, 'SIGKILL'),
  /** Later, where nobody catches it. */
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
