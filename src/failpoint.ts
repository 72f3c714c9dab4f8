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
  | 'sync_commit';

let armed: { name: Failpoint; passes: number } | null = null;

/** Ends this process as `kill -9` would, the `passes`-th time that it comes by. For tests only. */
export function armFailpoint(name: Failpoint, passes: number): void {
  armed = { name, passes };
}

/** What was armed, to hand on to a worker thread. */
export function armedFailpoint(): { name: Failpoint; passes: number } | null {
  return armed;
}

export function failpoint(name: Failpoint): void {
  if (armed?.name !== name) return;
  armed.passes -= 1;
  if (armed.passes <= 0) process.kill(process.pid, 'SIGKILL');
}
