import type { ChangeReason } from '../../../src/membership-change.ts';
import type { LivePlanRow, LiveState } from '../../../src/store/live.ts';
import { originOf } from '../../live/differences.ts';
import { directionOf, liveExplanation } from '../../run/explanations.ts';
import type { ChangeBatch, Staged } from '../port.ts';
import { type LiveContext, PAGE, planned } from './context.ts';

/** A plan's counts, as stored with it. */
export interface StagedLive extends Staged {
  /** True if its commit moves the snapshot. */
  readonly moves: boolean;
}

interface PlanTally {
  entered: number;
  exited: number;
  changed: number;
  total: number;
  /** Values of those who change. */
  readonly reasons: Partial<Record<ChangeReason, number>>;
}

export const noRows = (): PlanTally => ({ entered: 0, exited: 0, changed: 0, total: 0, reasons: {} });

/** Adds rows to the counts. A plan that doesn't move the snapshot changes nobody. */
export function count(tally: PlanTally, rows: readonly LivePlanRow[], { moves }: Pick<StagedLive, 'moves'>): void {
  tally.total += rows.length;
  if (!moves) return;
  for (const row of rows) {
    const { told, value } = row;
    if (told === value) continue;
    const direction = { present: value !== null, was: told !== null };
    tally[directionOf(direction)] += 1;
    const { reason } = liveExplanation(direction, originOf(row), 0);
    tally.reasons[reason] = (tally.reasons[reason] ?? 0) + 1;
  }
}

export async function readStaged(store: LiveState, plan: string): Promise<StagedLive | null> {
  const found = await store.findPlan(plan);
  return found === null || found.record === '' ? null : (JSON.parse(found.record) as StagedLive);
}

/** Pages of a plan's rows, in order. */
export async function* planRows(store: LiveState, plan: string): AsyncGenerator<readonly LivePlanRow[]> {
  for (let after = 0; ; ) {
    const rows = await store.planRows(plan, after, PAGE);
    const last = rows.at(-1);
    if (last === undefined) return;
    yield rows;
    after = last.position;
  }
}

/** Reads at most a page, since all deliveries wait for the store in the meantime. */
export async function readPlan(live: LiveContext, plan: string, after: number, limit: number): Promise<ChangeBatch> {
  const { key = '' } = (await live.store.findPlan(plan)) ?? {};
  return changesOf(live, key, await live.store.planRows(plan, after, Math.min(limit, PAGE)));
}

export function changesOf(live: LiveContext, key: string, rows: readonly LivePlanRow[]): ChangeBatch {
  return {
    positions: rows.map(({ position }) => position),
    userIds: rows.map(({ user }) => user),
    present: rows.map(({ value }) => value !== null),
    was: rows.map(({ told }) => told !== null),
    origins: rows.map(originOf),
    values: rows.map((row) => planned(live, key, row)),
  };
}

/** Removes rows after this position, and counts the rest again. */
export async function cutPlan(store: LiveState, plan: string, after: number): Promise<void> {
  const found = await store.findPlan(plan);
  const staged = await readStaged(store, plan);
  if (!found || !staged) return;
  await store.cutPlan(plan, after);
  const tally = noRows();
  for await (const rows of planRows(store, plan)) count(tally, rows, staged);
  const members = staged.before + tally.entered - tally.exited;
  await store.savePlan(plan, { ...found, record: JSON.stringify({ ...staged, ...tally, members }) });
}
