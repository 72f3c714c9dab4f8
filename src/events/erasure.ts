import type { Clock } from '../kernel/clock.ts';
import type { ErasedIds } from '../store/deleted-ids.ts';
import type { LogFile } from '../store/event-log.ts';
import { columnsWithout, type ErasingSql, erasingIn } from '../store/events/erasing.ts';
import type { LogFiles } from '../store/events/files.ts';
import { type PlannedFile, Workbench } from '../store/events/parquet.ts';
import { type Sealed, writeAndList } from './sealing.ts';

export interface Erasure {
  readonly ids: ErasedIds;
  /** Only events from these sources; null for all. */
  readonly sources: readonly string[] | null;
  /** Only events received up to this time, in milliseconds since 1970; absent for all. */
  readonly until?: number;
}

/** Bytes of files that are read at once: all of them may have to be fetched. */
const AT_ONCE = 2 ** 30;

/** Rewrite the files that have events of these people, without those events and ids. */
export async function eraseUsers(sealed: Sealed, requests: readonly Erasure[]): Promise<void> {
  const { log, files, clock, fence } = sealed;
  await eraseFrom(files, clock, (await log.state()).files, requests, (bench, planned, { name }) =>
    writeAndList(sealed, bench, [planned], (written) => log.replace(fence, [name], written)),
  );
}

/** Rewrite the files that the store does not list: one that was restored knows none that came after its backup. */
export async function eraseFromUnlisted({ log, files, clock }: Sealed, requests: readonly Erasure[]): Promise<void> {
  const listed = new Set((await log.state()).files.map(({ name }) => name));
  const others = (await files.list()).filter(({ name }) => !listed.has(name));
  await eraseWithin(files, clock, others, requests);
}

/** Rewrite files under their names. One without events stays, so that a late upload of it meets another object. */
export const eraseWithin = (
  place: LogFiles,
  clock: Pick<Clock, 'token'>,
  files: readonly LogFile[],
  requests: readonly Erasure[],
): Promise<void> =>
  eraseFrom(place, clock, files, requests, async (bench, planned, { name }) => {
    await bench.write([{ ...planned, name, mayBeEmpty: true }]);
  });

/** Find the files that have events of these people. @param rewrite - replaces a file by what is planned */
async function eraseFrom(
  place: LogFiles,
  clock: Pick<Clock, 'token'>,
  files: readonly LogFile[],
  requests: readonly Erasure[],
  rewrite: (bench: Workbench, planned: PlannedFile, file: LogFile) => Promise<void>,
): Promise<void> {
  if (files.length === 0) return;
  const bench = await Workbench.open(place, () => clock.token(12));
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
      for (const some of portions(theirs)) {
        for (const file of await bench.matching(some, `${erasing.isGone} OR ${erasing.losesId}`))
          await rewrite(bench, await without(bench, file, erasing), file);
        await place.trim();
      }
    }
  } finally {
    await bench.close();
  }
}

function portions(files: readonly LogFile[]): readonly (readonly LogFile[])[] {
  let total = 0;
  const byPlace = Map.groupBy(files, ({ bytes }) => {
    total += bytes;
    return Math.floor(total / AT_ONCE);
  });
  return [...byPlace.values()];
}

const without = (bench: Workbench, file: LogFile, { isGone, losesId }: ErasingSql) =>
  bench.merged([file], `NOT coalesce(${isGone}, false)`, columnsWithout(losesId));
