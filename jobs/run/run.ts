import { failpoint } from '../../src/kernel/failpoint.ts';
import type { Run, RunPhase } from '../../src/store/port.ts';
import { computations } from '../audience-or-trait.ts';
import { endOf } from '../engine-errors.ts';
import { isAhead } from '../schedule/schedule.ts';
import { mayBeBelieved, orphan, withProject } from './audience-subjects.ts';
import { areBack } from './destination-room.ts';
import { endedFor, forgetEnded } from './ended-audiences.ts';
import { Exclusions } from './exclusions.ts';
import { moveSnapshot, movesFrom } from './move-snapshot.ts';
import { type Debt, debtsOf } from './owed-membership.ts';
import { reoffer } from './reoffer.ts';
import { failingSince, nextTryAt } from './retry-times.ts';
import type { LeasedContext, OnRun, RunContext, RunPlace, SyncOrder } from './run-context.ts';
import { isFirst, noted, recordAfter } from './run-record.ts';
import { sendPlan } from './send.ts';
import { missing } from './snapshot-version.ts';
import { recordOf, recordUnopened, stageRun } from './staging.ts';
import { discardPlan, endInterrupted, rejectRun, unfinishedRuns } from './unfinished-runs.ts';

/**
 * Performs one sync of one subject: finishes what a crash left, then stages, guards, sends, commits and records.
 * Finally catches up destinations that are behind.
 *
 * @param onRun - called with each run that was made or finished
 */
export async function performOrder(leased: LeasedContext, order: SyncOrder, onRun: OnRun): Promise<void> {
  const unfinished = await unfinishedRuns(leased);
  const held = unfinished.find(({ state }) => state === 'held');
  if (held && !replaces(order)) return onRun(held, true);
  if (unfinished.length === 0 && (await isServed(leased, order))) return;
  const open = (engine?: string) => leased.open(engine).catch((error) => recordUnopened(leased, order, error));
  const context = await open();
  try {
    const record = await recordOf(leased);
    const former = movesFrom(leased.subject, record, leased.config());
    if (former !== null) {
      const from = await open(former);
      try {
        // Their plans are there.
        if (!(await settleUnfinished(from, order, onRun))) return;
        await moveSnapshot(from, context, await recordOf(leased));
      } finally {
        await from.engine.close();
      }
    }
    await performOpened(context, order, onRun);
  } finally {
    await context.engine.close();
  }
}

/** Finishes or discards runs that were left unfinished. Resolves to false if one waits for a person. */
async function settleUnfinished(context: RunContext, order: SyncOrder, onRun: OnRun): Promise<boolean> {
  for (const run of await unfinishedRuns(context)) {
    if (run.state === 'staged') await endInterrupted(context, run);
    else if (replaces(order)) onRun(await rejectRun(context, run, `Replaced by a ${order.action}.`));
    else if (run.state === 'held') {
      onRun(run, true);
      return false;
    } else onRun(await finishRun(context, run, onRun));
  }
  return true;
}

async function performOpened(context: RunContext, order: SyncOrder, onRun: OnRun): Promise<void> {
  if (!(await settleUnfinished(context, order, onRun))) return;
  if (await isServed(context, order)) return;
  const record = await recordOf(context);
  if (order.action === 'settle' || (order.action === 'retire' && record.endedAt !== null)) {
    await settleDebts(context, order.asOf, onRun);
    return;
  }
  // First, while the snapshot is what destinations have.
  if (order.action === 'sync' && !(await settleDebts(context, order.asOf, onRun, isEnd))) return;
  let { action } = order;
  if (action === 'resync' && (await context.engine.snapshot(record.key)).version === record.version) {
    // First, since a resync explains nothing that a destination missed while it was away.
    await settleDebts(context, order.asOf, onRun, isReturning);
    if (isFirst(record)) action = 'sync';
  }
  const computes = action === 'sync' || action === 'resync';
  const { subject, config } = context;
  const read = computes
    ? await withProject(subject, config(), order.asOf).catch((error) => recordUnopened(context, order, error))
    : subject;
  const staging = { ...order, action };
  const run = await stageRun({ ...context, subject: read }, staging, await recordOf(context));
  onRun(run.state === 'sending' ? await finishRun(context, run, onRun) : run);
  if (run.state === 'sending') await settleDebts(context, order.asOf, onRun);
}

const isEnd = ({ action }: Debt) => action === 'withdraw';
const isReturning = ({ action, isReturn }: Debt) => action === 'backfill' && isReturn;

const replaces = ({ action }: SyncOrder) => action === 'resync' || action === 'retire';

/** True if a run for this tick began already, in any process, and no retry is due. */
async function isServed(context: RunPlace, { tick }: SyncOrder): Promise<boolean> {
  const { lastRunAt, endedAt } = await recordOf(context);
  const now = context.clock.now();
  if (tick === undefined || lastRunAt === null || lastRunAt < tick || endedAt !== null || isAhead(lastRunAt, now)) {
    return false;
  }
  const again = await nextTryAt(context.store, context.subject.key, tick, now);
  return again === null || again > now;
}

/**
 * Sends each destination that is behind what it lacks, if it takes messages. Resolves to false once a person has to
 * decide about it first.
 */
async function settleDebts(
  context: RunContext,
  asOf: number,
  onRun: OnRun,
  isDue: (debt: Debt) => boolean = () => true,
): Promise<boolean> {
  const { store, subject, config } = context;
  const owing = async () => {
    const record = await store.audience(subject.key);
    const since = await store.historySince();
    return record && { record, debts: debtsOf(record, subject.source, config().destinations, since) };
  };
  let owed = await owing();
  for (const { name } of config().destinations) {
    if (!owed) return true;
    const { record, debts } = owed;
    const debt = debts.find(({ destination }) => destination === name) ?? (await endedFor(context, record, name));
    if (!debt || !isDue(debt)) continue;
    // A destination that left a run because it took nothing gets everything only once it takes messages again.
    if (debt.isReturn && !(await areBack(context))(name)) continue;
    const run = await stageRun(context, { action: debt.action, asOf: record.endedAt ?? asOf, debt }, record);
    onRun(run.state === 'held' ? run : await finishRun(context, run, onRun));
    if (run.state === 'held') return false;
    owed = await owing();
  }
  await forgetEnded(context);
  return true;
}

/**
 * Streams the rest of a run's plan, moves the snapshot, and records both. Steps that were done before a crash are not
 * repeated.
 */
async function finishRun(context: RunContext, run: Run, onRun: OnRun): Promise<Run> {
  const { store, engine, clock, lease } = context;
  let phase: RunPhase = 'send';
  try {
    const staged = await engine.staged(run.id);
    const before = await recordOf(context);
    if (!staged) throw missing(context, before);
    if (run.renamedFrom !== undefined) await endFormer(context, run.renamedFrom, run, onRun);
    const exclusions = await Exclusions.of(context, run);
    const told = await sendPlan(context, run, staged, before, exclusions);
    context.onProgress({ run: run.id, key: run.key, phase: 'commit', done: staged.total, total: staged.total });
    await lease.check();
    phase = 'commit';
    await engine.commit(run.id);
    failpoint('sync_commit');
    // Read again, because destinations may have left the run.
    const saved = (await store.run(run.id)) ?? run;
    const after = recordAfter({ ...run, cursor: saved.cursor }, staged, await recordOf(context), told, clock.now());
    const sequence = await reoffer(context, saved, after, exclusions);
    if (after.endedAt !== null && after.version === 0) await engine.drop(run.key);
    const sent = (await store.run(run.id))?.sent ?? run.sent;
    const done: Run = {
      ...run,
      ...exclusions.countsOf(run),
      destinations: told,
      state: 'done',
      phase: 'done',
      held: false,
      // Clears failures of earlier tries.
      reason: run.code === null ? run.reason : null,
      code: null,
      sent,
      finishedAt: clock.now(),
    };
    await store.saveRun(done, lease.fence, { ...after, sequence });
    await discardPlan(context, run);
    await pruneHistory(context);
    await exclusions.scrub();
    context.onProgress({ run: run.id, key: run.key, phase: 'done', done: sent, total: sent });
    return done;
  } catch (error) {
    // The run stays unfinished: the next sync continues from its cursor.
    // Read again, because a destination may have dropped out of it.
    const now = (await store.run(run.id)) ?? run;
    const since = await failingSince(store, now);
    if (!context.signal.aborted) await store.saveRun({ ...noted(now, { error, since }), phase }, lease.fence);
    throw endOf(error, 'was over; the next one goes on with it');
  }
}

/** Retires the audience that this one was renamed from. Its messages are sent first. */
async function endFormer(context: RunContext, key: string, run: Run, onRun: OnRun): Promise<void> {
  const { asOf, key: renamedTo } = run;
  const { store, config } = context;
  const record = await store.audience(key);
  const isBack = computations(config()).some((computation) => computation.key === key);
  if (!record || isBack || !(await mayBeBelieved(record, store))) return;
  await context.beside(orphan(record), (beside) => performOpened(beside, { action: 'retire', asOf, renamedTo }, onRun));
}

/** Past membership is kept for as long as runs are. */
async function pruneHistory({ engine, store, config, clock, log, subject }: RunContext): Promise<void> {
  const { recordRetention } = config();
  if (!recordRetention || !(await store.trustsClocks(clock.now()))) return;
  const before = clock.now() - recordRetention.runs;
  await store.forgetHistory(before);
  await engine
    .prune(before)
    .catch((error) => log.warn({ err: error, key: subject.key }, 'Could not remove old membership from the engine'));
}

/** Continues a held run to its end, as if no guard had stopped it. */
export async function approveRun(context: RunContext, run: Run, onRun: OnRun): Promise<void> {
  const waited = context.clock.now() - (run.finishedAt ?? context.clock.now());
  const approved: Run = { ...run, state: 'sending', held: false, code: null, finishedAt: null, waited };
  await context.store.saveRun(approved, context.lease.fence);
  onRun(await finishRun(context, approved, onRun));
  await settleDebts(context, run.asOf, onRun);
}
