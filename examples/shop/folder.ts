import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The right to a folder, kept in a file within it. */
export type Claim = { readonly ok: true; release(): void } | { readonly ok: false; readonly pid: number };

/** Takes a folder for this process and empties it, unless another one that is alive has it. */
export function claimFolder(folder: string): Claim {
  const file = join(folder, 'running.pid');
  const pid = readPid(file);
  if (pid !== null && pid !== process.pid && isAlive(pid)) return { ok: false, pid };
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  writeFileSync(file, String(process.pid));
  return { ok: true, release: () => rmSync(file, { force: true }) };
}

function readPid(file: string): number | null {
  try {
    return Number.parseInt(readFileSync(file, 'utf8'), 10) || null;
  } catch {
    return null;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
