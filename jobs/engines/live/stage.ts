import { RollcallError } from '../../../src/kernel/errors.ts';
import type { LiveAudience, LiveMember, LivePlanRow, LiveState, LiveWhich } from '../../../src/store/live.ts';
import { BY_SETTINGS } from '../../live/differences.ts';
import type { Preview, StageRequest } from '../port.ts';
import type { LiveContext } from './context.ts';
import { memberPages, readAudience } from './members.ts';
import { changesOf, count, noRows, type StagedLive } from './plan.ts';

/** Stores the rows of a plan, then its counts. A plan without counts was interrupted. */
export async function stagePlan(live: LiveContext, request: StageRequest): Promise<StagedLive> {
  const { store } = live;
  const { plan, key, toVersion } = request;
  for (const old of await store.plansOf(key)) await store.dropPlan(old);
  await store.savePlan(plan, { key, toVersion, record: '' });
  const staged = await computePlan(live, request, (rows) => store.addToPlan(plan, rows));
  await store.savePlan(plan, { key, toVersion, record: JSON.stringify(staged) });
  return staged;
}

export async function previewPlan(live: LiveContext, request: StageRequest, sampleSize: number): Promise<Preview> {
  const sample: LivePlanRow[] = [];
  const staged = await computePlan(live, request, async (rows) => {
    sample.push(...rows.slice(0, Math.max(0, sampleSize - sample.length)));
  });
  return { ...staged, sample: changesOf(live, request.key, sample) };
}

/** Passes the rows of a plan to `onRows`, and counts them. */
async function computePlan(
  live: LiveContext,
  request: StageRequest,
  onRows: (rows: readonly LivePlanRow[]) => Promise<void>,
): Promise<StagedLive> {
  const { plan, key, kind, action, toVersion } = request;
  const computes = action === 'sync' || action === 'resync';
  const audience = computes ? await readyAudience(live, key) : await readAudience(live.store, key);
  const { members: before = 0, version: fromVersion = 0 } = audience ?? {};
  const moves = action !== 'backfill' && action !== 'withdraw';
  const tally = noRows();
  for await (const found of rowsToTell(live, request)) {
    const rows = audience?.hold === 'edited' ? found.map((row) => bySettings(row, live.now())) : found;
    request.signal?.throwIfAborted();
    count(tally, rows, { moves });
    if (rows.length > 0) await onRows(rows);
  }
  return {
    ...{ plan, key, kind, action, fromVersion, toVersion: moves ? toVersion : fromVersion },
    ...{ before, members: before + tally.entered - tally.exited, ...tally, duplicates: 0 },
    invalid: computes ? await live.leftOut(key) : 0,
    columns: kind === 'trait' ? [key] : (request.with?.names ?? []),
    frozen: computes && audience ? (reasonOf(audience) ?? (await live.whyHeld(audience, tally))) : null,
    moves,
  };
}

/** Columns that an edit added to members have no cause, but are no repetition either. */
function bySettings(row: LivePlanRow, changedAt: number): LivePlanRow {
  const { cause, told, value } = row;
  return cause === null && told !== null && value !== null ? { ...row, cause: BY_SETTINGS, changedAt } : row;
}

/** The audience, computed by the configured definition. */
async function readyAudience({ store, hashOf }: LiveContext, key: string): Promise<LiveAudience> {
  const audience = await readAudience(store, key);
  if (audience !== null && audience.definition === hashOf(key)) return audience;
  throw new RollcallError(
    'live_not_ready',
    `${key} is live, and not computed yet by this definition. \`rollcall start\` computes it; so does \`rollcall sync --once\`. ` +
      `To see its plan before anything is sent, first run \`rollcall audiences pause ${key}\`: a paused audience is computed, too.`,
  );
}

async function* rowsToTell(live: LiveContext, request: StageRequest): AsyncGenerator<readonly LivePlanRow[]> {
  const { store } = live;
  if (request.known) yield* rowsSince(store, request, request.known);
  else yield* rowsOfAll(store, request);
}

/** Compares the members with those of a past version. */
async function* rowsSince(
  store: LiveState,
  { key, action, with: columns }: StageRequest,
  { version, upTo }: NonNullable<StageRequest['known']>,
): AsyncGenerator<readonly LivePlanRow[]> {
  const isWithin = (at: number) => at > version && at <= upTo;
  const isSame = (one: string | null, other: string | null) =>
    one === other || (columns?.areSent === false && one !== null && other !== null);
  let position = 0;
  for await (const page of memberPages(store, key, 'all')) {
    const users = page.flatMap(({ user, since }) => (since > version ? user : []));
    const past = Map.groupBy(await store.pastSince(key, version, users), ({ user }) => user);
    const causes = Map.groupBy(await store.causesSince(key, version, users), ({ user }) => user);
    yield page.flatMap(({ user, current, told, since }): LivePlanRow[] => {
      const theirs = past.get(user) ?? [];
      const before = since > version ? (theirs.find((each) => each.since <= version)?.value ?? null) : told;
      const value = action === 'withdraw' ? null : action === 'sync' ? current : told;
      const isTouched = isWithin(since) || theirs.some((each) => isWithin(each.since) || isWithin(each.until));
      if (isSame(value, before) && !isTouched) return [];
      position += 1;
      const { cause = null, changedAt = null } = causes.get(user)?.find((each) => each.version === since) ?? {};
      return [{ position, user, told: before, value, cause, changedAt }];
    });
  }
}

async function* rowsOfAll(store: LiveState, request: StageRequest): AsyncGenerator<readonly LivePlanRow[]> {
  let position = 0;
  for await (const page of memberPages(store, request.key, whichOf(request))) {
    yield page.flatMap((member): LivePlanRow[] => {
      const value = valueToTell(member, request);
      if (value === undefined) return [];
      position += 1;
      const { user, told, cause, changedAt } = member;
      // Its origin is that of what is yet to be told.
      const isBehind = value !== told;
      return [{ position, user, told, value, ...(isBehind ? { cause, changedAt } : { cause: null, changedAt: null }) }];
    });
  }
}

function whichOf({ action, leavers }: StageRequest): LiveWhich {
  if (action === 'sync') return 'behind';
  return action === 'resync' || leavers ? 'all' : 'told';
}

/** The value that a plan sends for a user: null if the user leaves, undefined if nothing is sent. */
function valueToTell(
  { current, told, since }: LiveMember,
  { action, onlyLeavers }: StageRequest,
): string | null | undefined {
  const isKnown = told !== null || since > 0;
  if (action === 'sync') return current;
  if (action === 'resync') return current !== null || isKnown ? current : undefined;
  if (!isKnown || (onlyLeavers && told !== null)) return undefined;
  return action === 'backfill' ? told : null;
}

/** The reason why a person must decide first. Other holds only mean that work is in progress. */
function reasonOf({ hold }: LiveAudience): string | null {
  if (hold === null || ['new', 'edited', 'behind', 'run'].includes(hold)) return null;
  return hold === 'rejected' ? 'What has changed since it was frozen was rejected before.' : hold;
}
