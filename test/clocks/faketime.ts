import { existsSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Where Debian's package `faketime` puts its library; null where it is not installed. */
export const FAKETIME = library();

export const skipWithoutFaketime = FAKETIME === null && 'libfaketime (Debian: faketime) is not installed';

function library(): string | null {
  const roots = ['/usr/lib', '/usr/lib64'].filter((root) => existsSync(root));
  const folders = roots.flatMap((root) => [root, ...readdirSync(root).map((name) => join(root, name))]);
  const found = folders
    .map((folder) => join(folder, 'faketime', 'libfaketimeMT.so.1'))
    .find((path) => existsSync(path));
  return found ?? null;
}

/** The clocks of a process, as libfaketime shifts them. */
export class FakeClocks {
  private readonly file: string;
  private readonly speed: number;

  /** @param speed - how fast they run: a clock that drifts is at 1.05, say */
  constructor(file: string, speed = 1) {
    this.file = file;
    this.speed = speed;
    this.shift(0);
  }

  /** Shifts them by so many seconds from now on. */
  shift(seconds: number): void {
    // In one step: it is read all the time.
    const drift = this.speed === 1 ? '' : ` x${this.speed}`;
    writeFileSync(`${this.file}.new`, `${seconds < 0 ? '-' : '+'}${Math.abs(seconds)}s${drift}\n`);
    renameSync(`${this.file}.new`, this.file);
  }

  /** @param steadyToo - whether CLOCK_MONOTONIC is shifted with the wall clock */
  env(steadyToo: boolean): Record<string, string> {
    return {
      LD_PRELOAD: FAKETIME ?? '',
      FAKETIME_TIMESTAMP_FILE: this.file,
      FAKETIME_NO_CACHE: '1',
      ...(steadyToo ? {} : { FAKETIME_DONT_FAKE_MONOTONIC: '1', DONT_FAKE_MONOTONIC: '1' }),
    };
  }
}
