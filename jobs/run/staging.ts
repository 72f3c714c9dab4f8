import { RollcallError } from '../../src/kernel/errors.ts';
import { failpoint } from '../../src/kernel/failpoint.ts';
import type { AudienceRecord, Run } from '../../src/store/port.ts';
import { endOf } from '../engine-errors.ts';
import { runsDefinition } from '../engines/plan/counts.ts';
import type { Action, Staged } from '../engines/port.ts';
import { withinTime } from '../time-limit.ts';
import { checkColumns } from './column-conflicts.ts';
import { isAllDelivered } from './ended-audiences.ts';
import { Exclusions } from './exclusions.ts';
import { asRename, renameReason, withdrawalReason } from './guard.ts';
import { columnsChanged, whyHeld } from './hold-reason.ts';
import type { Debt } from './owed-membership.ts';
import { failingSince } from './retry-times.ts';
import { newRecord, type RunContext, type RunPlace, type Subject, type SyncOrder } from './run-context.ts';
import { failed, isEdited, isFirst, newRun, reasonOf, scopeOf, skippedBy, withCounts } from './run-record.ts';
import { lastVersion, nextVersion } from './snapshot-version.ts';

/** The time limit of a subject without a definition, which has no SQL to run. */
const NO_LIMIT = Number.POSITIVE_INFINITY;

export async function recordOf({ store, subject }: RunPlace): Promise<AudienceRecord> {
  return (await store.audience(subject.key)) ?? newRecord(subject);
}

/** Records a try whose engine could not be opened as a failed run. */
export async function recordUnopened(context: RunPlace, order: SyncOrder, error: unknown): Promise<never> {
  const { store, clock, lease } = context;
  const { action, asOf } = order;
  if (action === 'settle') throw error;
  const record = await recordOf(context);
  const { settled } = await store.deletions(null);
  const startedAt = clock.now();
  const of = { action, asOf, destinations: [], epoch: settled, changeReason: null };
  const run = newRun(context, of, record, startedAt);
  const since = await failingSince(store, run);
  const over: Run = { ...failed(run, { error, since }, startedAt), phase: 'open' };
  await store.saveRun(over, lease.fence, { ...record, lastRunAt: startedAt });
  throw error;
}

interface Staging extends Pick<SyncOrder, 'asOf' | 'former' | 'renames' | 'renamedTo'> {
  readonly action: Action;
  readonly debt?: Debt;
}

export async function stageRun(context: RunContext, order: Staging, known: AudienceRecord): Promise<Run> {
  const { store, clock, lease, subject } = context;
  const { asOf, debt } = order;
  // Read first: users whose deletion is unfinished now are left out of the result, and no run that knows of a deletion
  // seems to have begun before its end.
  const { settled } = await store.deletions(null);
  const startedAt = clock.now();
  // With a sync, users who stay members would not get their new values.
  const isOtherKind = runsDefinition(order) && !isFirst(known) && known.kind !== subject.kind;
  const action = isOtherKind ? 'resync' : order.action;
  const record = await recordAtStart(context, debt, known, startedAt);
  const destinations = debt ? [debt.destination] : scopeOf(action, known, subject, context.config().destinations);
  const edited = isEdited(subject, known) && runsDefinition(order);
  const { renamedTo } = order;
  const changeReason = reasonOf(isOtherKind ? 'sync' : action, known, edited, { isReturn: debt?.isReturn, renamedTo });
  const of = { action, asOf, destinations, epoch: settled, changeReason };
  let run: Run = {
    ...newRun(context, of, known, startedAt),
    toVersion: await lastVersion(store, known),
    ...(edited && { isEdited: true }),
    ...(renamedTo !== undefined && { renamedTo }),
  };
  const skipped = skippedBy(run, context.config().destinations);
  if (skipped.length > 0) run = { ...run, skipped };
  // Saved first, so that people see it computing, and so that it counts as failed if the process dies.
  await store.saveRun(run, lease.fence, { ...known, definitionHash: record.definitionHash });
  try {
    // Called after saving the run: of two processes that begin one definition under two names, one sees the other.
    const former = (await order.former?.()) ?? null;
    if (former) run = { ...run, renamedFrom: former.key, changeReason: 'renamed' };
    const staged = await stage(context, run, order, known);
    failpoint('sync_stage');
    refuseMissingColumns(context, run, staged);
    await checkColumns(context, staged.columns);
    const {
      counts,
      reason,
      code = null,
    } = action === 'sync' || action === 'resync'
      ? await judge(context, run, staged, order, former, known)
      : { counts: staged, reason: action === 'withdraw' ? withdrawalReason(debt?.destination ?? '', staged) : null };
    return await saveStaged(context, { ...withCounts(run, counts), code }, reason, record);
  } catch (cause) {
    const error = endOf(cause, 'had computed what to send; the next sync computes anew');
    const since = await failingSince(store, run).catch(() => run.startedAt);
    const over = failed(run, { error, since }, clock.now());
    // Its tick is still due in any process, so it does no harm if this is not written.
    if (context.signal.aborted) await store.saveRun(over, lease.fence).catch(() => {});
    else
      await store.saveRun(over, lease.fence, {
        ...record,
        engine: known.engine,
        reads: known.reads,
        sequence: known.sequence,
      });
    throw error;
  }
}

/** The audience's record once the run has computed. */
async function recordAtStart(
  { store, subject }: RunContext,
  debt: Debt | undefined,
  known: AudienceRecord,
  startedAt: number,
): Promise<AudienceRecord> {
  const isKnownToAll =
    known.formerColumns.length > 0 && known.lapsed.length === 0 && (await isAllDelivered(store, known.key));
  return {
    ...known,
    formerColumns: isKnownToAll ? [] : known.formerColumns,
    engine: subject.engine,
    reads: subject.reads,
    source: subject.source,
    definitionHash: isFirst(known) ? (subject.definition?.hash ?? known.definitionHash) : known.definitionHash,
    lastRunAt: debt && known.endedAt === null ? known.lastRunAt : startedAt,
    // Above all that was ever sent: in earlier lives of the audience, and, by the clock, from a former store. A replay
    // after the audience's end was sent with one above the last.
    sequence: Math.max(
      known.endedAt === null ? known.sequence : known.sequence + 1,
      (await store.lastSequence(known.key)) + 1,
      startedAt * 1000,
    ),
  };
}

/** A module's engine may be older than the columns of audiences. */
function refuseMissingColumns({ subject }: RunContext, { action }: Run, { columns }: Staged): void {
  const wanted = subject.kind === 'audience' ? (subject.definition?.with?.names ?? []) : [];
  if (!runsDefinition({ action }) || wanted.every((name) => columns.includes(name))) return;
  const message = `${subject.key}: its engine does not return the columns that \`with\` names. Update the engine, or remove \`with\`.`;
  throw new RollcallError('column_missing', message);
}

/** Takes out of a snapshot what no destination gets any more. */
const NO_COLUMNS = { names: [], areSent: false };

/** Lets the engine compute, within the definition's time limit. */
async function stage(context: RunContext, run: Run, { debt, asOf }: Staging, known: AudienceRecord) {
  const { engine, clock, lease, subject } = context;
  const { action } = run;
  const toVersion = await nextVersion(context, action, known, run.toVersion);
  context.onProgress({ run: run.id, key: run.key, phase: 'stage', done: 0, total: null });
  await lease.check();
  const { sql = '', timeout = NO_LIMIT, expect, allowPlaceholders, with: columns } = subject.definition ?? {};
  const hasColumns = runsDefinition({ action }) && known.kind === 'audience' && known.columns.length > 0;
  return withinTime(clock, timeout, context.signal, (signal) =>
    engine.stage({
      ...{ plan: run.id, key: subject.key, kind: subject.kind, action, sql, asOf, toVersion, signal },
      leavers: debt?.isReturn ?? false,
      onlyLeavers: debt?.action === 'backfill' && debt.skips && debt.known === null,
      known: debt?.known ?? null,
      leasedAt: lease.since,
      freshness: expect?.freshness?.column,
      allowPlaceholders,
      with: columns ?? (hasColumns ? NO_COLUMNS : undefined),
    }),
  );
}

/** Records what was computed. @param reason - why the run is held; null if it continues */
async function saveStaged(context: RunContext, run: Run, reason: string | null, record: AudienceRecord): Promise<Run> {
  const { store, clock, lease } = context;
  const staged: Run = {
    ...run,
    state: reason ? 'held' : 'sending',
    phase: reason ? 'stage' : 'send',
    held: reason !== null,
    reason,
    finishedAt: reason === null ? null : clock.now(),
  };
  await store.saveRun(staged, lease.fence, record);
  if (reason) {
    // A run that waits for a person is not under way.
    context.onProgress({ run: run.id, key: run.key, phase: 'done', done: 0, total: 0 });
    context.onHeld(staged);
  }
  return staged;
}

interface Judgement {
  readonly counts: Staged;
  /** The reason why a person must decide first; null if nobody has to. */
  readonly reason: string | null;
  readonly code?: 'columns_changed' | null;
}

/**
 * Holds a run whose source is not credible, that changes too much, or that was renamed. Excluded users are found only
 * by reading the plan, so they are removed from it only if they could matter.
 */
async function judge(
  context: RunContext,
  run: Run,
  staged: Staged,
  { asOf, renames }: Staging,
  former: Subject | null,
  before: AudienceRecord,
): Promise<Judgement> {
  const { definition } = context.subject;
  if (!definition) return { counts: staged, reason: null };
  if (staged.frozen) return { counts: staged, reason: staged.frozen };
  // Live audiences were judged by their engine, which knows the changes of the last hour.
  const judged = staged.frozen === undefined ? whyHeld : () => null;
  const drift = columnsChanged(run, staged.columns, before);
  const members = former ? (await context.engine.snapshot(former.key)).members : 0;
  const asFormer = (counts: Staged) => (former ? asRename(counts, members) : counts);
  const reasonOf = (counts: Staged) =>
    drift ??
    judged(asFormer(staged), asFormer(counts), definition, asOf) ??
    (former && !renames ? renameReason(former.key, members, counts) : null);
  const ifNoneEnters = { ...staged, members: staged.members - staged.entered, entered: 0 };
  if (reasonOf(staged) === null && reasonOf(ifNoneEnters) === null) return { counts: staged, reason: null };
  const exclusions = await Exclusions.of(context, run);
  await exclusions.purge(0);
  await exclusions.scrub();
  const counts = { ...staged, ...exclusions.countsOf(staged) };
  return { counts, reason: reasonOf(counts), code: drift === null ? null : 'columns_changed' };
}
