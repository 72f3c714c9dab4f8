import { failpoint } from '../src/failpoint.ts';
import type { AudienceRecord, Run } from '../src/store/port.ts';
import { connectedTo } from './computation.ts';
import { newRecord, type RunContext } from './context.ts';
import type { Action, Staged } from './engines/port.ts';
import { Exclusions } from './exclusions.ts';
import { disbelief } from './expect.ts';
import { holdReason } from './guard.ts';
import { offerAgain } from './offer.ts';
import { areBack } from './room.ts';
import { failed, newRun, noted, recordAfter, scopeOf, withCounts } from './run-record.ts';
import { isAhead } from './schedule.ts';
import { sendPlan } from './send.ts';
import { missing, nextVersion } from './snapshot.ts';

export interface Order {
  readonly action: Action;
  /** The run's time, milliseconds since 1970. */
  readonly asOf: number;
  /** The tick that it is for: nothing is computed when a run began since. */
  readonly tick?: number | undefined;
}

/**
 * Everything that one sync of one subject does: finish what a crash left, stage, guard, send, commit, record; then give
 * the whole membership to destinations that lack it.
 *
 * @param onRun - gets each run that was made or finished, when it is
 */
export async function performOrder(context: RunContext, order: Order, onRun: (run: Run) => void): Promise<void> {
  const { store, subject } = context;
  for (const run of await unfinishedRuns(context)) {
    if (run.state === 'held' && order.action === 'sync') {
      onRun(run);
      return;
    }
    if (run.state === 'held' || (order.action !== 'sync' && !(await context.engine.staged(run.id)))) {
      onRun(await rejectRun(context, run, `Replaced by a ${order.action}.`));
    } else onRun(await finishRun(context, run));
  }
  const record = (await store.audience(subject.key)) ?? newRecord(subject);
  const { lastRunAt } = record;
  if (
    order.tick !== undefined &&
    lastRunAt !== null &&
    lastRunAt >= order.tick &&
    !isAhead(lastRunAt, context.clock.now())
  )
    return;
  const run = await stageRun(context, order, record);
  onRun(run.state === 'sending' ? await finishRun(context, run) : run);
  if (run.state === 'sending' && order.action !== 'retire') await backfillNewcomers(context, order.asOf, onRun);
}

/** Runs of this subject that a crash or a guard left, oldest first. */
export async function unfinishedRuns({ store, subject }: RunContext): Promise<readonly Run[]> {
  const runs = await store.runs({ key: subject.key, states: ['staged', 'held', 'sending', 'committed'], limit: 100 });
  return runs.toReversed();
}

/** Gives the whole membership to each connected destination that lacks it, and nothing to the others. */
async function backfillNewcomers(context: RunContext, asOf: number, onRun: (run: Run) => void): Promise<void> {
  const { store, subject } = context;
  for (const name of connectedTo(subject.source, context.config().destinations)) {
    const record = await store.audience(subject.key);
    if (!record || record.destinations.includes(name)) continue;
    // Who left a run for taking nothing is not sent everything as long as that lasts.
    if (record.lapsed.includes(name) && !(await areBack(context))(name)) continue;
    const run = await stageRun(context, { action: 'backfill', asOf }, record, name);
    onRun(await finishRun(context, run));
  }
}

async function stageRun(context: RunContext, order: Order, known: AudienceRecord, newcomer?: string): Promise<Run> {
  const { store, engine, clock, lease, subject } = context;
  const startedAt = clock.now();
  const record = {
    ...known,
    engine: subject.engine,
    source: subject.source,
    lastRunAt: startedAt,
    // Above all that was ever sent: in an earlier life of the audience, and by the clock where the store itself is new. One above
    // the last is what a replay after the audience's end was sent with.
    sequence: Math.max(known.sequence, (await store.lastSequence(known.key)) + 1, startedAt * 1000),
  };
  const connected = connectedTo(subject.source, context.config().destinations);
  // Before anything is read: users whose deletion is not over by now are left out of what is computed.
  const { settled } = await store.deletions(null);
  const scope = scopeOf(order.action, known, connected, newcomer);
  const run = newRun(context, order, record, startedAt, scope, settled);
  try {
    const toVersion = await nextVersion(context, order.action, known);
    context.onProgress({ run: run.id, key: run.key, phase: 'stage', done: 0, total: null });
    await lease.check();
    const staged = await engine.stage({
      plan: run.id,
      key: subject.key,
      kind: subject.kind,
      action: order.action,
      sql: subject.definition?.sql ?? '',
      asOf: order.asOf,
      toVersion,
      leavers: newcomer !== undefined && known.lapsed.includes(newcomer),
      leasedAt: lease.since,
      signal: context.signal,
      freshness: subject.definition?.expect.freshness?.column,
    });
    failpoint('sync_stage');
    const runsDefinition = order.action === 'sync' || order.action === 'resync';
    const reason = runsDefinition ? whyHeld(context, staged, order.asOf) : null;
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

/** What a person has to look at first: a source that is not to be believed, or too large a change. */
function whyHeld({ subject: { definition } }: RunContext, staged: Staged, asOf: number): string | null {
  if (!definition) return null;
  return disbelief(staged, definition.expect, asOf) ?? holdReason(staged, definition.guard);
}

/**
 * Streams what is left of a run's plan, moves the snapshot, and records both. Whatever of it has been done before a
 * crash is not done again.
 */
export async function finishRun(context: RunContext, run: Run): Promise<Run> {
  const { store, engine, clock, lease, subject } = context;
  try {
    const staged = await engine.staged(run.id);
    const before = (await store.audience(run.key)) ?? newRecord(subject);
    if (!staged) throw missing(context, before);
    const exclusions = await Exclusions.of(context, run);
    const told = await sendPlan(context, run, staged, before, exclusions);
    context.onProgress({ run: run.id, key: run.key, phase: 'commit', done: staged.total, total: staged.total });
    await lease.check();
    await engine.commit(run.id);
    failpoint('sync_commit');
    const after = recordAfter(run, staged, before, told);
    const sequence =
      run.action === 'sync'
        ? await offerAgain(context, (await store.run(run.id)) ?? run, after, exclusions)
        : after.sequence;
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
    if (run.action === 'retire') await store.forgetAudience(run.key, lease.fence);
    await discardPlan(context, run);
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
  onRun(await finishRun(context, approved));
  await backfillNewcomers(context, run.asOf, onRun);
}
