import { createHash } from 'node:crypto';
import fs from 'node:fs';

/** Access to the system, so that tests can simulate any machine. */
export interface ProcessSystem {
  readonly pid: number;
  /** Milliseconds since 1970. */
  now(): number;
  /** Start time of this process, milliseconds since 1970. */
  readonly startedAt: number;
  /** Milliseconds since the boot. */
  uptime(): number;
  /** The text of a file below /proc; throws as `readFileSync` does. */
  read(path: string): string;
  /** The target of a link below /proc; throws as `readlinkSync` does. */
  link(path: string): string;
  /** Checks that a process exists, without a signal; throws as `process.kill` does. */
  probe(pid: number): void;
  /** The output of `ps` for the time since a process started, `[[dd-]hh:]mm:ss`; throws if there is no `ps`. */
  elapsed(pid: number): string;
}

// Loaded only if there is no /proc: they take megabytes.
const os = () => process.getBuiltinModule('node:os');
const children = () => process.getBuiltinModule('node:child_process');

export const thisSystem: ProcessSystem = {
  pid: process.pid,
  now: () => Date.now(),
  startedAt: Date.now() - process.uptime() * 1000,
  uptime: () => os().uptime() * 1000,
  read: (path) => fs.readFileSync(path, 'utf8'),
  link: (path) => fs.readlinkSync(path),
  probe: (pid) => void process.kill(pid, 0),
  elapsed: (pid) =>
    children().execFileSync('ps', ['-o', 'etime=', '-p', String(pid)], { encoding: 'utf8', stdio: 'pipe' }),
};

/** A process as recorded in a file name. A pid alone is ambiguous: it is reused, and each container has its own. */
export interface SpoolOwner {
  pid: number;
  /** Hash of the boot and the pid namespace; `0` if unknown. */
  scope: string;
  /** Start time in ticks since the boot; 0 if unknown. */
  started: number;
  /** Time at which it took the file, milliseconds since 1970. */
  claimed: number;
}

/** Tolerance in milliseconds: the clock may have been adjusted between two readings. */
const SLACK = 2_000;

/** Checks if the process that owns a file is still alive. */
export class OwnerProcesses {
  readonly #system: ProcessSystem;
  readonly #scope: string;
  readonly #started: number;

  constructor(system: ProcessSystem = thisSystem) {
    this.#system = system;
    this.#started = this.#look(system.pid)?.started ?? 0;
    this.#scope = this.#started === 0 ? '0' : scopeOf(system);
  }

  /** This process as the owner of a file that it takes now. */
  claim(): SpoolOwner {
    const { pid } = this.#system;
    return { pid, scope: this.#scope, started: this.#started, claimed: this.#system.now() };
  }

  /** True if the owner has ended. So has one of another boot or container: containers do not share a folder. */
  isGone({ pid, scope, started, claimed }: SpoolOwner): boolean {
    if (scope !== this.#scope) return true;
    if (scope === '0') return this.#isGoneByTimes(pid, claimed);
    if (pid === this.#system.pid) return started !== this.#started;
    const found = this.#look(pid);
    // If /proc hides the process (hidepid), its pid decides: a process that may be alive keeps its file.
    return found ? found.started !== started || found.isZombie : !this.#exists(pid);
  }

  /** For systems without /proc. A process that started after the file was taken is another one. */
  #isGoneByTimes(pid: number, claimed: number): boolean {
    const now = this.#system.now();
    if (claimed < now - this.#system.uptime() - SLACK) return true;
    if (pid === this.#system.pid) return claimed < Math.floor(this.#system.startedAt);
    if (!this.#exists(pid)) return true;
    const age = this.#age(pid);
    return age !== undefined && claimed < now - age - SLACK;
  }

  #exists(pid: number): boolean {
    try {
      this.#system.probe(pid);
      return true;
    } catch (error) {
      return (error as NodeJS.ErrnoException).code !== 'ESRCH';
    }
  }

  #age(pid: number): number | undefined {
    try {
      const match = /^(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)$/.exec(this.#system.elapsed(pid).trim());
      if (!match) return undefined;
      const [days = 0, hours = 0, minutes = 0, seconds = 0] = match.slice(1).map((part) => Number(part ?? 0));
      return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000;
    } catch {
      return undefined;
    }
  }

  /** See proc_pid_stat(5): the name in parentheses may hold anything, so fields are counted from its end. */
  #look(pid: number): { started: number; isZombie: boolean } | undefined {
    try {
      const stat = this.#system.read(`/proc/${pid}/stat`);
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      const started = Number(fields[19]);
      return started > 0 ? { started, isZombie: fields[0] === 'Z' || fields[0] === 'X' } : undefined;
    } catch {
      return undefined;
    }
  }
}

function scopeOf(system: ProcessSystem): string {
  try {
    const boot = system.read('/proc/sys/kernel/random/boot_id').trim();
    const scope = `${boot} ${system.link('/proc/self/ns/pid')} ${timeNamespace(system)}`;
    return createHash('sha256').update(scope).digest('hex').slice(0, 12);
  } catch {
    return '0';
  }
}

/** Start times count from the boot, which a time namespace may shift. Kernels before 5.6 have none. */
function timeNamespace(system: ProcessSystem): string {
  try {
    return system.link('/proc/self/ns/time');
  } catch {
    return '';
  }
}
