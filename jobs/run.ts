import { failpoint } from '../src/failpoint.ts';
import type { AudienceRecord, Run } from '../src/store/port.ts';
import { computations } from './computation.ts';
import { newRecord, type RunContext, type Subject } from './context.ts';
import { type Debt, debtsOf } from './debts.ts';
import { endedFor, forgetEnded } from './end.ts';
import type { Action, Staged } from './engines/port.ts';
import { Exclusions } from './exclusions.ts';
import { disbelief } from './expect.ts';
import { asRename, holdReason, renameReason } from './guard.ts';
import { offerAgain } from './offer.ts';
import { areBack } from './room.ts';
import { failed, newRun, noted, recordAfter, scopeOf, withCounts } from './run-record.ts';
import { isAhead } from './schedule.ts';
import { sendPlan } from './send.ts';
import { lastVersion, missing, nextVersion } from './snapshot.ts';
import { orphan } from './subjects.ts';

export interface Order {
  /** `settle`: nothing but what destinations are to be told that are behind. */
  readonly action: 'sync' | 'resync' | 'retire' | 'settle';
  /** The run's time, milliseconds since 1970. */
  readonly asOf: number;
  /** The tick that it is for: nothing is computed when a run began since. */
  readonly tick?: number | undefined;
  /** The audience that this one was until now: it ends with the first sync of the new name. */
  readonly former?: Subject | null;
  /** Whether a person agreed to a change of the name. */
  readonly renames?: boolean | undefined;
}

/**
 * Everything that one sync of one subject does: finish what a crash left, stage, guard, send, commit, record; then tell
 * destinations that are behind.
 *
 * @param onRun - gets each run that was made or finished, when it is
 */
export async function performOrder(context: RunContext, order: Order, onRun: (run: Run) => void): Promise<void> {
  const { store, subject } = context;
  for (const run of await unfinishedRuns(context)) {
    const replaces = order.action === 'resync' || order.action === 'retire';
    if (run.state === 'held' && !replaces) {
      onRun(run);
      return;
    }
    if (run.state === 'held' || (replaces && !(await context.engine.staged(run.id)))) {
      onRun(await rejectRun(context, run, `Replaced by a ${order.action}.`));
    } else onRun(await finishRun(context, run, onRun));
  }
  const record = (await store.audience(subject.key)) ?? newRecord(subject);
  const { lastRunAt, endedAt } = record;
  const isServed = order.tick !== undefined && lastRunAt !== null && lastRunAt >= order.tick && endedAt === null;
  if (isServed && !isAhead(lastRunAt, context.clock.now())) return;
  if (order.action === 'settle' || (order.action === 'retire' && endedAt !== null)) {
    await settleDebts(context, order.asOf, onRun);
    return;
  }
  // First, while the snapshot is what they know.
  if (order.action === 'sync') await settleDebts(context, order.asOf, onRun, 'withdraw');
  const run = await stageRun(context, { ...order, action: order.action }, await known(context));
  onRun(run.state === 'sending' ? await finishRun(context, run, onRun) : run);
  if (run.state === 'sending') await settleDebts(context, order.asOf, onRun);
}

const known = async ({ store, subject }: RunContext) => (await store.audience(subject.key)) ?? newRecord(subject);

/** Runs of this subject that a crash or a guard left, oldest first. */
export async function unfinishedRuns({ store, subject }: RunContext): Promise<readonly Run[]> {
  const runs = await store.runs({ key: subject.key, states: ['staged', 'held', 'sending', 'committed'], limit: 100 });
  return runs.toReversed();
}

/** Tells each destination that is behind, and takes something, what it lacks; and nothing to the others. */
async function settleDebts(
  context: RunContext,
  asOf: number,
  onRun: (run: Run) => void,
  only?: Debt['action'],
): Promise<void> {
  const { store, subject, config } = context;
  for (const { name } of config().destinations) {
    const record = await store.audience(subject.key);
    if (!record) return;
    const { destinations } = config();
    const debt =
      debtsOf(record, subject.source, destinations).find((each) => each.destination === name) ??
      (await endedFor(context, record, name));
    if (!debt || (only !== undefined && debt.action !== only)) continue;
    // Who left a run for taking nothing is not sent everything as long as that lasts.
    if (debt.leavers && !(await areBack(context))(name)) continue;
    onRun(await finishRun(context, await stageRun(context, { action: debt.action, asOf, debt }, record), onRun));
  }
  await forgetEnded(context);
}

interface Staging extends Pick<Order, 'asOf' | 'former' | 'renames'> {
  readonly action: Action;
  readonly debt?: Debt;
}

async function stageRun(context: RunContext, order: Staging, known: AudienceRecord): Promise<Run> {
  const { store, engine, clock, lease, subject } = context;
  const { debt, former } = order;
  const startedAt = clock.now();
  // Those who stay members would not be told what they are now.
  const isOtherKind = order.action === 'sync' && known.version > 0 && known.kind !== subject.kind;
  const action = isOtherKind ? 'resync' : order.action;
  const record = {
    ...known,
    engine: subject.engine,
    source: subject.source,
    lastRunAt: debt && known.endedAt === null ? known.lastRunAt : startedAt,
    // Above all that was ever sent: in an earlier life of the audience, and by the clock where the store itself is new. One above
    // the last is what a replay after the audience's end was sent with.
    sequence: Math.max(
      known.endedAt === null ? known.sequence : known.sequence + 1,
      (await store.lastSequence(known.key)) + 1,
      startedAt * 1000,
    ),
  };
  // Before anything is read: users whose deletion is not over by now are left out of what is computed.
  const { settled } = await store.deletions(null);
  const destinations = debt ? [debt.destination] : scopeOf(action, known, subject, context.config().destinations);
  const { asOf } = order;
  const made = newRun(
    context,
    { action, asOf, destinations, epoch: settled, renamedFrom: former?.key },
    known,
    startedAt,
  );
  const run = { ...made, toVersion: await lastVersion(store, known) };
  try {
    const toVersion = await nextVersion(context, action, known, run.toVersion);
    context.onProgress({ run: run.id, key: run.key, phase: 'stage', done: 0, total: null });
    await lease.check();
    const staged = await engine.stage({
      plan: run.id,
      key: subject.key,
      kind: subject.kind,
      action,
      sql: subject.definition?.sql ?? '',
      asOf: order.asOf,
      toVersion,
      leavers: debt?.leavers ?? false,
      leasedAt: lease.since,
      signal: context.signal,
      freshness: subject.definition?.expect.freshness?.column,
    });
    failpoint('sync_stage');
    const reason = action === 'sync' || action === 'resync' ? await whyHeld(context, staged, order) : null;
    const counted: Run = {
      ...withCounts(run, staged),
      state: reason ? 'held' : 'sending',
      held: reason !== null,
      reason,
      finishedAt: reason === null ? null : clock.now(),
    };
    await store.saveRun(counted, lease.fence, record);
    if (reason) await context.onHeld(counted);
    return counted;
  } catch (error) {
    if (context.signal.aborted) throw error;
    await store.saveRun(failed(run, error, clock.now()), lease.fence, {
      ...record,
      engine: known.engine,
      sequence: known.sequence,
    });
    throw error;
  }
}

/** What a person has to look at first: a source that is not to be believed, too large a change, or a new name. */
async function whyHeld({ subject, engine }: RunContext, staged: Staged, order: Staging): Promise<string | null> {
  const { definition } = subject;
  const { former, asOf, renames } = order;
  if (!definition) return null;
  const judge = (counts: Staged) => disbelief(counts, definition.expect, asOf) ?? holdReason(counts, definition.guard);
  if (!former) return judge(staged);
  const { members } = await engine.snapshot(former.key);
  return judge(asRename(staged, members)) ?? (renames ? null : renameReason(former.key, members, staged));
}

/**
 * Streams what is left of a run's plan, moves the snapshot, and records both. Whatever of it has been done before a
 * crash is not done again.
 */
export async function finishRun(context: RunContext, run: Run, onRun: (run: Run) => void): Promise<Run> {
  const { store, engine, clock, lease } = context;
  try {
    const staged = await engine.staged(run.id);
    const before = await known(context);
    if (!staged) throw missing(context, before);
    if (run.renamedFrom !== undefined) await endFormer(context, run.renamedFrom, run.asOf, onRun);
    const exclusions = await Exclusions.of(context, run);
    const told = await sendPlan(context, run, staged, before, exclusions);
    context.onProgress({ run: run.id, key: run.key, phase: 'commit', done: staged.total, total: staged.total });
    await lease.check();
    await engine.commit(run.id);
    failpoint('sync_commit');
    // Read anew, because destinations may have left the run.
    const after = recordAfter(run, staged, await known(context), told, clock.now());
    const sequence = await offerAgain(context, (await store.run(run.id)) ?? run, after, exclusions);
    if (after.endedAt !== null && after.version === 0) await engine.drop(run.key);
    const sent = (await store.run(run.id))?.sent ?? run.sent;
    const done: Run = {
      ...run,
      destinations: told,
      state: 'done',
      held: false,
      code: null,
      sent,
      finishedAt: clock.now(),
    };
    await store.saveRun(done, lease.fence, { ...after, sequence });
    await discardPlan(context, run);
    await pruneHistory(context);
    if (exclusions.left) await scrubEngine(context);
    context.onProgress({ run: run.id, key: run.key, phase: 'done', done: sent, total: sent });
    return done;
  } catch (error) {
    // The run stays unfinished: the next sync goes on from its cursor.
    // Read anew, because a destination may have dropped out of it meanwhile.
    if (!context.signal.aborted) await store.saveRun(noted((await store.run(run.id)) ?? run, error), lease.fence);
    throw error;
  }
}

/** Retires the audience that this one was until now. Its messages go first. */
async function endFormer(context: RunContext, key: string, asOf: number, onRun: (run: Run) => void): Promise<void> {
  const { store, config } = context;
  const record = await store.audience(key);
  const isBack = computations(config()).some((computation) => computation.key === key);
  if (!record || record.endedAt !== null || isBack) return;
  await context.beside(orphan(record), (beside) => performOrder(beside, { action: 'retire', asOf }, onRun));
}

/** Gives up a run that was not sent, or whose plan is lost. */
export async function rejectRun(context: RunContext, run: Run, reason: string): Promise<Run> {
  const { store, clock, lease } = context;
  // One that was held had ended its work by then.
  const finishedAt = run.finishedAt ?? clock.now();
  const rejected: Run = { ...run, state: 'rejected', held: false, reason, finishedAt };
  await store.saveRun(rejected, lease.fence);
  await discardPlan(context, run);
  return rejected;
}

/** The run is over by now: a plan that stays for once is removed by the next one. */
async function discardPlan({ engine, log }: RunContext, run: Run): Promise<void> {
  await engine
    .discard(run.id)
    .catch((error) => log.warn({ err: error, run: run.id, key: run.key }, 'the plan was not removed'));
}

/** What is remembered of membership goes as far back as the runs do. */
async function pruneHistory({ engine, config, clock, log, subject }: RunContext): Promise<void> {
  const { recordRetention } = config();
  if (!recordRetention) return;
  await engine
    .prune(clock.now() - recordRetention.runs)
    .catch((error) => log.warn({ err: error, key: subject.key }, 'what is old was not forgotten'));
}

/** Users who were taken out of a plan stood in the engine's file for a while. */
async function scrubEngine({ engine, log, subject }: RunContext): Promise<void> {
  await engine
    .scrub('plans')
    .catch((error) => log.warn({ err: error, key: subject.key }, 'what the plan left in its engine was not removed'));
}

/** Has a held run go on to its end, as if no guard had stopped it. */
export async function approveRun(context: RunContext, run: Run, onRun: (run: Run) => void): Promise<void> {
  const waited = context.clock.now() - (run.finishedAt ?? context.clock.now());
  const approved: Run = { ...run, state: 'sending', held: false, finishedAt: null, waited };
  await context.store.saveRun(approved, context.lease.fence);
  onRun(await finishRun(context, approved, onRun));
  await settleDebts(context, run.asOf, onRun);
}
