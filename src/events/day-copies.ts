import type { Clock } from '../kernel/clock.ts';
import { dayOf } from '../kernel/timestamp.ts';
import type { TableLog } from '../store/event-log.ts';
import type { LogFiles } from '../store/events/files.ts';
import { Workbench } from '../store/events/parquet.ts';
import { type Erasure, eraseWithin } from './erasure.ts';

const DAY = 86_400_000;
/** Longer than any transaction that writes events, in milliseconds, with clocks that differ. */
const LATEST = 3_600_000;
const PAGE = 5_000;
const FIRST = '0001-01-01';

interface CopyParts {
  readonly log: TableLog;
  readonly files: LogFiles;
  readonly clock: Pick<Clock, 'now' | 'token'>;
  readonly logger: { info(details: object, message: string): void };
  /** Takes the right to write to the bucket. */
  readonly claim: () => Promise<void>;
}

/**
 * Copies of a table's ended days in a bucket, one file for each source and day. Each has one name for good, so that
 * writing it again doubles nothing. All of it happens under the lease of the event log.
 */
export class DayCopies {
  private readonly parts: CopyParts;
  private readonly copies: NonNullable<LogFiles['copies']>;

  /** Null if the files are in no bucket. */
  static of(parts: CopyParts): DayCopies | null {
    return parts.files.copies && new DayCopies(parts, parts.files.copies);
  }

  private constructor(parts: CopyParts, copies: NonNullable<LogFiles['copies']>) {
    this.parts = parts;
    this.copies = copies;
  }

  /** Copy the days that have ended since the last one that was copied. */
  async copy(): Promise<void> {
    const { log, clock, logger, claim } = this.parts;
    await claim();
    // A process that was killed may have left files that name deleted users.
    await this.copies.clear();
    const last = dayOf(clock.now() - LATEST - DAY);
    const copied = (await this.copies.until()) ?? FIRST;
    if (copied >= last) return;
    const groups = await log.groups(copied, last);
    for (const [day, sources] of Map.groupBy(groups, ([day]) => day)) {
      for (const [, source] of sources) await this.write(source, day);
      await this.copies.setUntil(day);
      logger.info({ day, sources: sources.length }, 'Copied a day of the event log into its bucket');
    }
    await this.copies.setUntil(last);
    await this.copies.clear();
  }

  /** Drop copies of events received before this day. */
  async dropBefore(day: string): Promise<void> {
    const { files } = this.parts;
    const old = (await files.list()).filter((file) => file.day < day);
    await files.remove(old.map(({ name }) => name));
  }

  async erase(requests: readonly Erasure[]): Promise<void> {
    const { copies } = this;
    const { files, clock, claim } = this.parts;
    await claim();
    // Another machine may have written other files of the same names.
    await copies.clear();
    await eraseWithin(files, clock, await files.list(), requests);
    await copies.clear();
  }

  private async write(source: string, day: string): Promise<void> {
    const { log, files, clock } = this.parts;
    const bench = await Workbench.open(files, () => clock.token(12));
    try {
      for (let after: string | null = '0'; after !== null; ) {
        const rows = await log.rows(source, day, after, PAGE);
        await bench.loadRows(rows.map(([, ...row]) => row));
        after = rows.at(-1)?.[0] ?? null;
      }
      await bench.write([bench.sealed(source, day)]);
    } finally {
      await bench.close();
    }
  }
}
