import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A folder on a small disk of its own, and its end; null where this process may not mount one. */
export function smallDisk(): { readonly folder: string; remove(): void } | null {
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-full-'));
  const isMounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=16m', 'tmpfs', folder]).status === 0;
  const remove = () => {
    // DuckDB may close a file a moment after its database.
    if (isMounted) execFileSync('umount', ['--lazy', folder]);
    rmSync(folder, { recursive: true, force: true });
  };
  if (isMounted) return { folder, remove };
  remove();
  return null;
}
