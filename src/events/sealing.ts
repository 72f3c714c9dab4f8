import type { Clock } from '../kernel/clock.ts';
import { RollcallError } from '../kernel/errors.ts';
import { failpoint } from '../kernel/failpoint.ts';
import { dayOf } from '../kernel/timestamp.ts';
import type { FileLog, LogFile, LogState } from '../store/event-log.ts';
import type { LogFiles } from '../store/events/files.ts';
import { type PlannedFile, Workbench } from '../store/events/parquet.ts';
import type { Fence } from '../store/port.ts';
import { insistOnFiles } from './missing.ts';

/** The most characters of bodies in one file, and in the tail before it is sealed. */
const SEAL_AT = 32_000_000;
/** Milliseconds after which the oldest event of the tail is sealed. */
const SEAL_AFTER = 15 * 60_000;
/** Files of about one size that are merged into one. */
const FAN_IN = 8;
/** Files with at least this many events are not merged. */
const LARGE = 4_000_000;

export interface Sealed {
  readonly log: FileLog;
  readonly files: LogFiles;
  readonly clock: Pick<Clock, 'token'>;
  readonly fence: Fence;
}

/** Tells if the tail must be sealed now. @param now - by the store's clock */
export function isDue({ tail }: LogState, now: number): boolean {
  if (tail.since === null) return false;
  return tail.bytes >= SEAL_AT || now - tail.since >= SEAL_AFTER || dayOf(tail.since) < dayOf(now);
}

/** Seal the current tail into files, a bounded part at a time. */
export async function sealTail({ log, files, clock, fence }: Sealed): Promise<void> {
  // Otherwise the folder would be made, and hide the lost one when it is mounted again.
  await insistOnFiles(files, log);
  const { tail } = await log.state();
  for (let after = 0; after < tail.last; ) {
    const bench = await Workbench.open(files, () => clock.token(12));
    try {
      let taken = 0;
      while (taken < SEAL_AT) {
        const parts = await log.tail(after, tail.last);
        if (parts.length === 0) break;
        await bench.load(parts);
        taken += parts.reduce((sum, { bodies }) => sum + bodies.length, 0);
        after = parts.at(-1)?.id ?? tail.last;
      }
      if (taken === 0) return;
      const planned = await bench.plan();
      await writeAndList({ log, files, fence }, bench, planned, (written) => log.seal(fence, after, written));
    } finally {
      await bench.close();
    }
  }
}

/** Write files and list them. They are announced to the store first: if the process crashes, they are known as leftovers. */
export async function writeAndList(
  { log, files, fence }: Omit<Sealed, 'clock'>,
  bench: Workbench,
  planned: readonly PlannedFile[],
  list: (written: readonly LogFile[]) => Promise<void>,
): Promise<void> {
  const names = planned.map(({ name }) => name);
  await log.willWrite(fence, names);
  failpoint('log_planned');
  const written = await bench.write(planned);
  try {
    await list(written);
  } catch (error) {
    // Another process has taken over: it may have removed and forgotten them while this one stood still.
    if (error instanceof RollcallError && error.code === 'fence_lost') await files.remove(names);
    throw error;
  }
  failpoint('log_listed');
}

/** The next files to merge: of one source and day, and of about one size. Of a past day, all of them. */
export function nextMerge(files: readonly LogFile[], today: string): readonly LogFile[] | null {
  for (const [, group] of Map.groupBy(files, ({ source, day }) => `${day} ${source}`)) {
    const small = group.filter(({ events }) => events < LARGE).sort((a, b) => a.events - b.events);
    if (small.length < 2) continue;
    const isOver = (small[0]?.day ?? today) < today;
    const total = small.reduce((sum, { events }) => sum + events, 0);
    if (isOver && total <= LARGE) return small;
    const levels = Map.groupBy(small, ({ events }) => Math.floor(Math.log(Math.max(1, events)) / Math.log(FAN_IN)));
    for (const [, level] of levels) {
      const least = isOver ? 2 : FAN_IN;
      if (level.length >= least) return upTo(level);
    }
  }
  return null;
}

/** The first files that together make one large file. */
function upTo(files: readonly LogFile[]): readonly LogFile[] | null {
  let total = 0;
  const some = files.filter(({ events }) => {
    total += events;
    return total <= LARGE;
  });
  return some.length > 1 ? some : null;
}

/** Merge small files until none are left or `isOver` returns true. */
export async function compact(
  { log, files: place, clock, fence }: Sealed,
  today: string,
  isOver: () => boolean,
): Promise<void> {
  while (!isOver()) {
    const files = nextMerge((await log.state()).files, today);
    if (files === null) return;
    const bench = await Workbench.open(place, () => clock.token(12));
    try {
      const names = files.map(({ name }) => name);
      const replace = (written: readonly LogFile[]) => log.replace(fence, names, written);
      await writeAndList({ log, files: place, fence }, bench, [await bench.merged(files)], replace);
    } finally {
      await bench.close();
    }
  }
}
