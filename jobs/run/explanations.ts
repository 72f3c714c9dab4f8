import {
  type ChangeExplanation,
  type ChangeReason,
  explanationOf,
  type ReasonCounts,
} from '../../src/membership-change.ts';
import type { AudienceRecord, Records, Run } from '../../src/store/port.ts';
import type { ChangeBatch, ChangeOrigin, Engine, Staged } from '../engines/port.ts';
import { changesMembership } from './run-changes.ts';

interface Direction {
  readonly present: boolean;
  readonly was: boolean;
}

export function directionOf({ present, was }: Direction): 'entered' | 'exited' | 'changed' {
  if (!present) return 'exited';
  return was ? 'changed' : 'entered';
}

/** A live change without an origin was found because state was built again, after a loss or a restore. */
export function liveExplanation(direction: Direction, origin: ChangeOrigin | null, now: number): ChangeExplanation {
  if (origin === null) return { reason: 'resync', changedAt: now, cause: null };
  return { reason: directionOf(direction), ...origin };
}

/** The reason for the end of an audience, for one destination or all. */
export function endReason({ endedAt, renamedTo }: Pick<AudienceRecord, 'endedAt' | 'renamedTo'>): ChangeReason {
  if (endedAt === null) return 'withdrawn';
  return renamedTo === undefined ? 'retired' : 'renamed';
}

/**
 * The explanation of a change that is sent again: that of its body, unless the user is no longer as it says.
 *
 * @param ended - why the audience has ended for the destination; null if it hasn't
 */
export function explainAgain(
  body: string,
  present: boolean,
  ended: ChangeReason | null,
  now: number,
): ChangeExplanation {
  const said = explanationOf(body);
  if (said?.present === present) return said;
  return { reason: ended ?? directionOf({ present, was: false }), changedAt: now, cause: null };
}

/** The facts of a run that its explanations depend on. */
export type Explained = Pick<Run, 'key' | 'kind' | 'first' | 'asOf' | 'isEdited' | 'changeReason' | 'fromVersion'>;
type PlanCounts = Pick<Staged, 'entered' | 'exited' | 'changed' | 'total' | 'reasons'>;

/** A run that an earlier version of Rollcall left unfinished has no reason of its own. */
function sharedReason({ first, changeReason = first ? 'first_sync' : null }: Pick<Run, 'first' | 'changeReason'>) {
  return changeReason;
}

/** Numbers of a plan's changes by reason. */
export function reasonsOf({ isEdited, fromVersion, ...run }: Explained, staged: PlanCounts): ReasonCounts {
  const { entered, exited, changed, total, reasons = { entered, exited, changed } } = staged;
  const changeReason = sharedReason(run);
  const moved = entered + exited + changed;
  if (changeReason === null) return present(reasons);
  if (changeReason !== 'resync' || fromVersion === 0) return present({ [changeReason]: total });
  const { resync = 0, ...others } = reasons;
  return present({ ...(isEdited ? { definition: moved } : others), resync: total - moved + (isEdited ? 0 : resync) });
}

function present(counts: ReasonCounts): ReasonCounts {
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0));
}

export type Explanations = (row: number) => ChangeExplanation;

/** Explains the rows of a plan. */
export type Explain = (rows: ChangeBatch) => Promise<Explanations>;

interface ExplainerParts {
  readonly engine: Pick<Engine, 'lookup'>;
  readonly store: Pick<Records, 'runs'>;
}

export function explainer(
  { engine, store }: ExplainerParts,
  run: Explained,
  /** True if members may change without entering or leaving. */
  tellsValues = run.kind === 'trait',
): Explain {
  const { isEdited, asOf, fromVersion } = run;
  const changeReason = sharedReason(run);
  const of = (reason: ChangeReason): ChangeExplanation => ({ reason, changedAt: asOf, cause: null });
  const ownReason = ({ present, was, origins }: ChangeBatch, row: number): ChangeExplanation => {
    const direction = { present: present[row] as boolean, was: was[row] as boolean };
    return origins ? liveExplanation(direction, origins[row] ?? null, asOf) : of(directionOf(direction));
  };
  if (changeReason === null) return async (rows) => (row) => ownReason(rows, row);
  const shared = of(changeReason);
  if (changeReason === 'returning') return returns(engine, () => timesOf(store, run.key), shared, run.key);
  if (changeReason === 'definition' && run.kind === 'audience' && tellsValues) {
    const update = { ...shared, isUpdate: true };
    return async ({ present, was }) =>
      (row) =>
        present[row] && was[row] ? update : shared;
  }
  // Over a lost snapshot nobody is known to have changed.
  if (changeReason !== 'resync' || fromVersion === 0) return async () => () => shared;
  const definition = of('definition');
  return async (rows) => {
    // Only a lookup shows which members have another value than before.
    const before = tellsValues ? await engine.lookup(run.key, rows.userIds) : null;
    const isSame = (row: number) =>
      rows.present[row] === rows.was[row] &&
      (!rows.present[row] || before === null || before.get(rows.userIds[row] ?? '')?.value === rows.values[row]);
    return (row) => (isSame(row) ? shared : isEdited ? definition : ownReason(rows, row));
  };
}

/** Says of each user when the change happened that the destination missed. */
function returns(
  engine: Pick<Engine, 'lookup'>,
  times: () => Promise<ReadonlyMap<number, number>>,
  shared: ChangeExplanation,
  key: string,
): Explain {
  let known: ReadonlyMap<number, number> | null = null;
  return async ({ userIds, origins }) => {
    known ??= await times();
    const at = known;
    const standings = await engine.lookup(key, userIds);
    return (row) => {
      const origin = origins?.[row];
      const since = standings.get(userIds[row] ?? '')?.since ?? 0;
      return { ...shared, changedAt: at.get(since) ?? shared.changedAt, ...origin };
    };
  };
}

/** More than one run a minute makes in the time for which runs are kept. */
const ALL_RUNS = 200_000;

/** The times of an audience's versions that runs made. */
async function timesOf(store: Pick<Records, 'runs'>, key: string): Promise<ReadonlyMap<number, number>> {
  const runs = await store.runs({ key, states: ['done'], limit: ALL_RUNS });
  return new Map(runs.flatMap((run) => (changesMembership(run) ? [[run.toVersion, run.asOf] as const] : [])));
}
