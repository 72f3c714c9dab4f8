import { chmodSync } from 'node:fs';

/** Restricts a file to its owner. */
export function makePrivate(file: string): void {
  try {
    chmodSync(file, 0o600);
  } catch {
    // The file does not exist, or another user owns it and decides on its rights.
  }
}
