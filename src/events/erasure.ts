import { failpoint } from '../kernel/failpoint.ts';
import type { LogFile } from '../store/event-log.ts';
import { ownIds, readAliases, rowsOf } from '../store/events/erasing.ts';
import { Workbench } from '../store/events/parquet.ts';
import { personOf } from '../store/events/person.ts';
import { announceAndWrite, type Sealed } from './sealing.ts';

export interface Erasure {
  readonly users: readonly string[];
  /** Only events from these sources; null for all. */
  readonly sources: readonly string[] | null;
  /** Only events received up to this time, in milliseconds since 1970; absent for all. */
  readonly until?: number;
}

/** Rewrite the files that have events of these users, without those events. */
export async function eraseUsers(sealed: Sealed, requests: readonly Erasure[]): Promise<void> {
  const { log, folder, clock, fence } = sealed;
  const { files } = await log.state();
  if (files.length === 0) return;
  const bench = await Workbench.open(folder, () => clock.token(12));
  try {
    const aliases = await readAliases(bench, files);
    const conditions: string[] = [];
    const scopes: (readonly string[] | null)[] = [];
    for (const [index, { users, sources, until }] of requests.entries()) {
      await bench.list(`users${index}`, [...personOf(users, aliases)]);
      await bench.list(`anonymous${index}`, await ownIds(bench, files, `users${index}`));
      conditions.push(rowsOf(`users${index}`, `anonymous${index}`, until));
      scopes.push(sources);
    }
    const conditionFor = (source: string) => {
      const those = conditions.filter((_, index) => scopes[index]?.includes(source) ?? true);
      return those.length === 0 ? null : those.join(' OR ');
    };
    for (const file of await filesWith(bench, files, conditionFor)) {
      const planned = [bench.merged([file], `NOT coalesce(${conditionFor(file.source)}, false)`)];
      await log.replace(fence, [file.name], await announceAndWrite(sealed, bench, planned));
      failpoint('log_listed');
    }
  } finally {
    await bench.close();
  }
}

/** The files in which a condition holds for at least one event. */
async function filesWith(
  bench: Workbench,
  files: readonly LogFile[],
  conditionFor: (source: string) => string | null,
): Promise<readonly LogFile[]> {
  const found: LogFile[] = [];
  for (const [source, theirs] of Map.groupBy(files, (file) => file.source)) {
    const condition = conditionFor(source);
    if (condition !== null) found.push(...(await bench.matching(theirs, condition)));
  }
  return found;
}
