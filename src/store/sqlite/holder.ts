import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** The system's side, so that tests can be any machine. */
export interface HostSystem {
  readonly platform: NodeJS.Platform;
  readonly pid: number;
  hostname(): string;
  /** The text of a file below /proc; throws as `readFileSync` does. */
  read(path: string): string;
  /** Where a link below /proc leads; throws as `readlinkSync` does. */
  link(path: string): string;
  /** Sends no signal, only looks: throws as `process.kill` does. */
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

/** A process, as it stands beside what it holds: a pid alone is not enough, since pids come again and namespaces have their own. */
interface Holder {
  /** Where the pid means this process; null where only the lease tells. */
  readonly scope: string | null;
  readonly pid: number;
  /** When the process was started, in the scope's own measure; null where that is not known. */
  readonly started: string | null;
}

/** Tells of other processes on this machine whether they have exited, so that nobody has to wait for their leases to end. */
export class Holders {
  private readonly system: HostSystem;
  private readonly self: Holder;

  constructor(system: HostSystem = REAL) {
    this.system = system;
    const scope = scopeOf(system);
    const started = this.look(system.pid)?.started ?? null;
    // Without a start time, a pid that comes again would look like the first.
    this.self = { scope: system.platform === 'linux' && started === null ? null : scope, pid: system.pid, started };
  }

  /** This process, as text for a column. */
  get own(): string {
    return JSON.stringify(this.self);
  }

  /** True only if it certainly has: what can't be seen from here may live. */
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

  /** See proc_pid_stat(5): the name in parentheses may hold anything, so fields are counted from its end. */
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

/** Host names are no proof of anything where containers share one: on Linux the boot and the namespace count. */
function scopeOf(system: HostSystem): string | null {
  // These know no namespaces of pids.
  if (system.platform === 'darwin' || system.platform === 'win32') return system.hostname();
  try {
    const boot = system.read('/proc/sys/kernel/random/boot_id').trim();
    // Start times count from a boot that a time namespace may shift.
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
