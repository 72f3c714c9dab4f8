import { chmodSync } from 'node:fs';

/** Takes a file away from everybody but its owner. */
export function makePrivate(file: string): void {
  try {
    chmodSync(file, 0o600);
  } catch {
    // There is no such file, or another user made it, whose rights count.
  }
}
