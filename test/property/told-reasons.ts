import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import type { StageRequest, Standing } from '../../jobs/engines/port.ts';
import type { ChangeReason } from '../../src/membership-change.ts';
import { type Told, toldIn } from './told-receiver.ts';

/** A user's traits or columns; null for members without any. */
type Rows = ReadonlyMap<string, Readonly<Record<string, number>> | null>;

interface Plan extends Pick<StageRequest, 'plan' | 'key' | 'action' | 'asOf' | 'kind'> {
  readonly definition: string;
  readonly isFirst: boolean;
  readonly isEdited: boolean;
  readonly isOtherKind: boolean;
  /** The key that it was renamed from. */
  readonly former: string | undefined;
  /** True if another key of this definition was retired: a process may have died before the store knew of it. */
  readonly hasEnded: boolean;
  readonly before: ReadonlyMap<string, Standing>;
  readonly rows: Rows;
}

/** Says of each change which reasons it may have by docs/wire.md, from what engines computed and destinations were. */
export class ReasonOracle {
  private readonly plans: Plan[] = [];
  /** Definitions as last committed, by key. */
  private readonly committed = new Map<string, string>();
  private readonly renamed = new Set<string>();
  /** Definitions of retired keys. */
  private readonly ended = new Set<string>();
  /** `destination key` of those that were out of reach, and whose `audiences` lacked the key. */
  private readonly away = new Set<string>();
  private readonly unwanted = new Set<string>();
  /** `destination key user` of changes that died. */
  private readonly died = new Set<string>();

  staged(
    { plan, key, action, asOf, kind, sql }: StageRequest,
    before: Plan['before'],
    rows: Rows,
    isConfigured: (key: string) => boolean,
  ): void {
    const definition = `${kind} ${sql}`;
    const known = this.committed.get(key);
    const isFirst = known === undefined;
    const former = isFirst
      ? [...this.committed].find(([other, same]) => same === definition && !isConfigured(other))?.[0]
      : undefined;
    if (former !== undefined) this.renamed.add(former);
    const hasEnded = this.ended.has(definition);
    const isEdited = !isFirst && known !== definition;
    const isOtherKind = isEdited && !known?.startsWith(kind);
    this.plans.push({
      plan,
      key,
      action,
      asOf,
      kind,
      definition,
      isFirst,
      isEdited,
      isOtherKind,
      former,
      hasEnded,
      before,
      rows,
    });
  }

  commit(id: string): void {
    const plan = this.plans.find((each) => each.plan === id);
    if (plan && isOwn(plan)) this.committed.set(plan.key, plan.definition);
    if (plan?.action !== 'retire') return;
    this.ended.add(this.committed.get(plan.key) ?? '');
    this.committed.delete(plan.key);
  }

  noteReach(destination: string, key: string, reach: 'reached' | 'away' | 'unwanted'): void {
    if (reach !== 'reached') this[reach].add(`${destination} ${key}`);
  }

  die(destination: string, body: string): void {
    const { key, userId } = toldIn(body);
    this.died.add(`${destination} ${key} ${userId}`);
  }

  /** Fails if a change says a reason that it can't have. */
  check(destination: string, told: Told): void {
    const { key, userId, present, reason, cause } = told;
    assert.equal(cause, undefined);
    const at = Date.parse(told.changedAt);
    const plans = this.plans.filter((plan) => plan.key === key && plan.asOf === at);
    const isSent =
      reason === 'returning'
        ? // Who leaves an unfinished run because its `audiences` lack the key lapses too.
          plans.length > 0 && [this.away, this.unwanted].some((names) => names.has(`${destination} ${key}`))
        : plans.some((plan) => reasonsOf(plan, userId, present).includes(reason)) &&
          (reason !== 'withdrawn' || this.unwanted.has(`${destination} ${key}`));
    // What is offered again is explained by the run that offers it, unless it is still as it was.
    const isAgain = this.died.has(`${destination} ${key} ${userId}`);
    const ofAgain = present ? ['entered'] : ['exited', 'withdrawn', 'retired', 'renamed'];
    const shown = () =>
      JSON.stringify({
        destination,
        ...told,
        plans: plans.map((plan) => ({ ...plan, before: [...plan.before], rows: [...plan.rows] })),
      });
    assert.ok(isSent || (isAgain && ofAgain.includes(reason)), `a reason that it can't have: ${shown()}`);
  }
}

const RENAMED = ['renamed', 'entered'] as const;

const isOwn = ({ action }: Pick<Plan, 'action'>) => action === 'sync' || action === 'resync';

function reasonsOf(plan: Plan, user: string, present: boolean): readonly ChangeReason[] {
  const { action, isFirst, isEdited, isOtherKind, former, hasEnded, before, rows } = plan;
  switch (action) {
    case 'backfill':
      return ['backfill'];
    case 'withdraw':
      return ['withdrawn', 'retired', 'renamed'];
    case 'retire':
      return ['retired', 'renamed'];
    default:
  }
  const isNew = former === undefined;
  if (isFirst) return [...(isNew ? ['first_sync' as const] : []), ...(isNew && !hasEnded ? [] : RENAMED)];
  const was = before.get(user)?.present ?? false;
  const is = rows.has(user);
  if (is !== present) return [];
  // What they hold of the other kind is changed for all, also for those who left before.
  if (isOtherKind) return ['definition'];
  const [now, value] = [rows.get(user) ?? null, before.get(user)?.value ?? null];
  // Without columns, those that a member had are not compared.
  const isSame = was === is && (now === null || isDeepStrictEqual(now, value === null ? null : JSON.parse(value)));
  const own = isEdited ? 'definition' : !is ? 'exited' : was ? 'changed' : 'entered';
  return isSame ? (action === 'resync' ? ['resync'] : []) : [own];
}
