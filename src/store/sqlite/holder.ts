import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** The system calls in use, so that tests can imitate any machine. */
export interface HostSystem {
  readonly platform: NodeJS.Platform;
  readonly pid: number;
  hostname(): string;
  /** Return the text of a file below /proc; throws as `readFileSync` does. */
  read(path: string): string;
  /** Return the target of a link below /proc; throws as `readlinkSync` does. */
  link(path: string): string;
  /** Check that a process exists, without sending a signal; throws as `process.kill` does. */
  probe(pid: number): void;
}

const REAL: HostSystem = {
  platform: process.platform,
  pid: process.pid,
  hostname,
  read: (path) => readFileSync(path, 'utf8'),
  link: (path) => readlinkSync(path),
  probe: (pid) => void process.kill(pid, 0),
};

/** A process that holds something. A pid alone is not enough, since pids are reused and namespaces have their own. */
interface Holder {
  /** The scope in which the pid is unique; null if only the lease can show that the process ended. */
  readonly scope: string | null;
  readonly pid: number;
  /** Start time of the process in the scope's own unit; null if unknown. */
  readonly started: string | null;
}

/** Detects that other processes on this machine have exited, so that nobody has to wait for their leases to expire. */
export class Holders {
  private readonly system: HostSystem;
  private readonly self: Holder;

  constructor(system: HostSystem = REAL) {
    this.system = system;
    const scope = scopeOf(system);
    const started = this.look(system.pid)?.started ?? null;
    // Without a start time, a reused pid would look like the first process.
    this.self = { scope: system.platform === 'linux' && started === null ? null : scope, pid: system.pid, started };
  }

  get own(): string {
    return JSON.stringify(this.self);
  }

  /** True only if the process has certainly exited: one that can't be seen from here may still run. */
  hasExited(holder: string): boolean {
    const { scope, pid, started } = JSON.parse(holder) as Holder;
    if (scope === null || scope !== this.self.scope) return false;
    if (pid === this.self.pid) return started !== this.self.started;
    try {
      this.system.probe(pid);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ESRCH') return true;
    }
    if (started === null) return false;
    const found = this.look(pid);
    return found !== null && (found.started !== started || found.isZombie);
  }

  /** Read state and start time. The name in parentheses may hold anything, so count from its end: proc_pid_stat(5). */
  private look(pid: number): { readonly started: string; readonly isZombie: boolean } | null {
    try {
      const stat = this.system.read(`/proc/${pid}/stat`);
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      const [state] = fields;
      const started = fields[19];
      return started === undefined ? null : { started, isZombie: state === 'Z' || state === 'X' };
    } catch {
      return null;
    }
  }
}

/** Return the scope of this process's pid. Containers may share a host name, so on Linux boot and namespace count. */
function scopeOf(system: HostSystem): string | null {
  // These systems have no pid namespaces.
  if (system.platform === 'darwin' || system.platform === 'win32') return system.hostname();
  try {
    const boot = system.read('/proc/sys/kernel/random/boot_id').trim();
    // Start times count from boot, which a time namespace may shift.
    return [boot, system.link('/proc/self/ns/pid'), timeNamespace(system)].join(' ');
  } catch {
    return null;
  }
}

function timeNamespace(system: HostSystem): string {
  try {
    return system.link('/proc/self/ns/time');
  } catch {
    // Kernels before 5.6 have none.
    return '';
  }
}
