import { RollcallError } from '../../src/kernel/errors.ts';
import type { AudienceRecord, Run } from '../../src/store/port.ts';
import type { Staged } from '../engines/port.ts';
import { hasMembership, recordWithout } from './owed-membership.ts';
import { failingSince } from './retry-times.ts';
import type { RunContext, RunPlace } from './run-context.ts';
import { failed, recordAfter, sequenceAfter } from './run-record.ts';
import { recordOf } from './staging.ts';

/** Runs of this subject that a crash, failure or guard left unfinished, oldest first. */
export async function unfinishedRuns({ store, subject }: RunPlace): Promise<readonly Run[]> {
  const runs = await store.runs({ key: subject.key, states: ['staged', 'held', 'sending', 'committed'], limit: 100 });
  return runs.toReversed();
}

/** Fails a run whose process ended before anything was sent. It is computed again. */
export async function endInterrupted({ store, clock, lease }: RunPlace, run: Run): Promise<void> {
  const error = new RollcallError('interrupted', 'The process ended before the run had computed what to send.');
  const since = await failingSince(store, run);
  await store.saveRun(failed(run, { error, since }, clock.now()), lease.fence);
}

/** Discards a run, or the unsent rest of one. */
export async function rejectRun(context: RunContext, given: Run, reason: string): Promise<Run> {
  const { store, engine, clock, lease } = context;
  const run = (await store.run(given.id)) ?? given;
  // A held run had finished its work earlier.
  const finishedAt = run.finishedAt ?? clock.now();
  const rejected: Run = { ...run, state: 'rejected', held: false, reason, code: null, finishedAt };
  const wasCommitted = await isCommitted(context, run);
  const staged = run.cursor === null && !wasCommitted ? null : await engine.staged(run.id);
  const keep = wasCommitted ? keepAll : keepWhatWasSent;
  const record = staged ? await keep(context, run, staged) : undefined;
  await store.saveRun(rejected, lease.fence, record);
  await discardPlan(context, run);
  return rejected;
}

/** True if the run moved the snapshot before its process ended: then all of it was sent. */
async function isCommitted({ engine, store }: RunContext, run: Run): Promise<boolean> {
  if (run.state !== 'sending' || run.toVersion === run.fromVersion) return false;
  const { version } = await engine.snapshot(run.key);
  const before = (await store.audience(run.key))?.version ?? 0;
  if (version === before) return false;
  return version === run.toVersion || (run.action === 'retire' && version === 0);
}

async function keepAll(context: RunContext, run: Run, staged: Staged): Promise<AudienceRecord> {
  const record = recordAfter(run, staged, await recordOf(context), run.destinations ?? [], context.clock.now());
  if (record.endedAt !== null && record.version === 0) await context.engine.drop(run.key);
  return record;
}

/** Moves the snapshot by the part of the plan that was sent, so that it still matches what destinations have. */
async function keepWhatWasSent(context: RunContext, run: Run, staged: Staged): Promise<AudienceRecord> {
  const { engine, clock } = context;
  const before = await recordOf(context);
  const told = run.destinations ?? [];
  if (run.action === 'sync' || run.action === 'resync') {
    await engine.cut(run.id, Number(run.cursor));
    await engine.commit(run.id);
    // Destinations that lacked the membership have only this part of it.
    const behind = run.action === 'resync' ? told.filter((name) => !hasMembership(before, name)) : [];
    const inStep = told.filter((name) => !behind.includes(name));
    return recordAfter(run, staged, recordWithout(behind, run, before, true), inStep, clock.now());
  }
  // An end can't be half sent: a destination that got a part of it gets everything again.
  return { ...recordWithout(told, run, before, true), sequence: sequenceAfter(run, before) };
}

/** Removes the plan of a finished run. If that fails, the next run does it. */
export async function discardPlan({ engine, log }: RunContext, run: Run): Promise<void> {
  await engine
    .discard(run.id)
    .catch((error) => log.warn({ err: error, run: run.id, key: run.key }, 'Could not remove the plan'));
}
