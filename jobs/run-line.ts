import type { Run } from '../src/store/port.ts';

/** The JSON line of a run (design section 5); `ms` until it ended or was held. */
export function runLine(run: Run) {
  const { key, kind, first, members, entered, exited, invalid, duplicates, held, sent, startedAt } = run;
  return {
    run: run.id,
    key,
    kind,
    first,
    members,
    entered,
    exited,
    invalid,
    duplicates,
    held,
    sent,
    startedAt: new Date(startedAt).toISOString(),
    ms: run.finishedAt === null ? null : run.finishedAt - startedAt,
  };
}
