import { failpoint } from '../kernel/failpoint.ts';
import type { ErasedIds } from '../store/deleted-ids.ts';
import type { LogFile } from '../store/event-log.ts';
import { columnsWithout, type ErasingSql, erasingIn } from '../store/events/erasing.ts';
import { Workbench } from '../store/events/parquet.ts';
import { announceAndWrite, type Sealed } from './sealing.ts';

export interface Erasure {
  readonly ids: ErasedIds;
  /** Only events from these sources; null for all. */
  readonly sources: readonly string[] | null;
  /** Only events received up to this time, in milliseconds since 1970; absent for all. */
  readonly until?: number;
}

/** Rewrite the files that have events of these people, without those events and ids. */
export async function eraseUsers(sealed: Sealed, requests: readonly Erasure[]): Promise<void> {
  const { log, clock, fence } = sealed;
  const { files } = await log.state();
  if (files.length === 0) return;
  const bench = await Workbench.open(sealed.files, () => clock.token(12));
  try {
    const erasings: (ErasingSql & Pick<Erasure, 'sources'>)[] = [];
    for (const [index, { ids, sources, until }] of requests.entries())
      erasings.push({ ...(await erasingIn(bench, `${index}`, ids, until)), sources });
    const sqlFor = (source: string): ErasingSql | null => {
      const those = erasings.filter(({ sources }) => sources?.includes(source) ?? true);
      const any = (part: keyof ErasingSql) => those.map((each) => each[part]).join(' OR ');
      return those.length === 0 ? null : { isGone: any('isGone'), losesId: any('losesId') };
    };
    for (const [source, theirs] of Map.groupBy(files, (file) => file.source)) {
      const erasing = sqlFor(source);
      if (erasing === null) continue;
      for (const file of await bench.matching(theirs, `${erasing.isGone} OR ${erasing.losesId}`)) {
        await log.replace(
          fence,
          [file.name],
          await announceAndWrite(sealed, bench, [await without(bench, file, erasing)]),
        );
        failpoint('log_listed');
      }
    }
  } finally {
    await bench.close();
  }
}

const without = (bench: Workbench, file: LogFile, { isGone, losesId }: ErasingSql) =>
  bench.merged([file], `NOT coalesce(${isGone}, false)`, columnsWithout(losesId));
