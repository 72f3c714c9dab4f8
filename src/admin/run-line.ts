import type { Run, RunPhase, RunState } from '../store/port.ts';

const PHASES: Readonly<Record<RunState, RunPhase>> = {
  staged: 'stage',
  held: 'stage',
  sending: 'send',
  committed: 'commit',
  done: 'done',
  failed: 'stage',
  rejected: 'stage',
};

/** The JSON line of a run. `ms` is the time until it ended or was held. */
export function runLine(run: Run) {
  const { key, kind, first, members, entered, exited, invalid, duplicates, held, sent, startedAt } = run;
  const { action, state, changed, reason, code, definitionHash, asOf, reasons = {}, skipped = [] } = run;
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
    ms: tookMs(run),
    action,
    state,
    phase: run.phase ?? PHASES[state],
    code,
    reason,
    changed,
    reasons,
    skipped: [...skipped],
    before: membersBefore(run),
    definitionHash,
    asOf: new Date(asOf).toISOString(),
  };
}

/** Milliseconds that a run worked, without the time it was held; null while it works. */
export function tookMs({ startedAt, finishedAt, waited = 0 }: Run): number | null {
  return finishedAt === null ? null : finishedAt - startedAt - waited;
}

/** Members before the run; null if it failed before they were counted. */
export function membersBefore({ state, action, members, entered, exited }: Run): number | null {
  if (state === 'failed') return null;
  return action === 'backfill' || action === 'withdraw' ? members : members - entered + exited;
}
