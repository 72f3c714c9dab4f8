import type { Value } from '../../src/definition/definition.ts';
import { RollcallError } from '../../src/errors.ts';
import type { LiveAudience, LiveMember, LivePlanRow, LiveRecords, LiveWhich } from '../../src/store/live.ts';
import { valueColumn } from './definitions/value-column.ts';
import type { Engine, MemberBatch, RunChange, Staged, StageRequest } from './port.ts';

interface LiveEngineOptions {
  readonly store: LiveRecords;
  /** Hash of an audience's live definition; null where it has none. */
  readonly hashOf: (key: string) => string | null;
  readonly definedValue: (key: string) => Value | null;
  readonly kindOf: (key: string) => 'audience' | 'trait';
  readonly now: () => number;
  readonly forget: (users: readonly string[]) => Promise<void>;
}

const PAGE = 5_000;

/** What a plan is kept with. */
interface Counts extends Staged {
  readonly moves: boolean;
}

/** The membership of live audiences, which is computed already: in the store, as an engine. */
export function openLive({ store, hashOf, definedValue, kindOf, now, forget }: LiveEngineOptions): Engine {
  const audienceOf = async (key: string): Promise<LiveAudience | null> =>
    (await store.liveAudiences()).find((each) => each.key === key) ?? null;

  async function ready(key: string): Promise<LiveAudience> {
    const audience = await audienceOf(key);
    if (audience !== null && audience.definition === hashOf(key)) return audience;
    throw new RollcallError(
      'live_not_ready',
      `${key} is live, and not computed yet by this definition. \`rollcall start\` computes it; so does \`rollcall sync --once\`. ` +
        `To see its plan before anything is sent, first run \`rollcall audiences pause ${key}\`: a paused audience is computed, too.`,
    );
  }

  /** Rows of a plan, a page at a time, with counts. */
  async function* planned(request: StageRequest): AsyncGenerator<readonly LivePlanRow[]> {
    let position = 0;
    for await (const page of pages(request.key, whichOf(request))) {
      const rows = page.flatMap((member): LivePlanRow[] => {
        const row = rowOf(member, request);
        if (row === null) return [];
        position += 1;
        return [{ position, user: member.user, told: member.told, value: row }];
      });
      yield rows.map((row) => ({ ...row, value: row.value === GONE ? null : row.value }));
    }
  }

  async function* pages(key: string, which: LiveWhich): AsyncGenerator<readonly LiveMember[]> {
    for (let after = ''; ; ) {
      const page = await store.livePage(key, which, after, PAGE);
      const last = page.at(-1);
      if (last === undefined) return;
      yield page;
      after = last.user;
    }
  }

  async function counted(
    request: StageRequest,
    each: (rows: readonly LivePlanRow[]) => Promise<void>,
  ): Promise<Counts> {
    const { plan, key, kind, action, toVersion } = request;
    const computes = action === 'sync' || action === 'resync';
    const audience = computes ? await ready(key) : await audienceOf(key);
    const before = audience?.members ?? 0;
    const fromVersion = audience?.version ?? 0;
    let [entered, exited, changed, total] = [0, 0, 0, 0];
    const moves = action !== 'backfill' && action !== 'withdraw';
    for await (const rows of planned(request)) {
      request.signal?.throwIfAborted();
      for (const { told, value } of moves ? rows : []) {
        if (told === null && value !== null) entered += 1;
        else if (told !== null && value === null) exited += 1;
        else if (told !== value) changed += 1;
      }
      total += rows.length;
      if (rows.length > 0) await each(rows);
    }
    const members = before + entered - exited;
    const columns = kind === 'trait' ? [key] : [];
    const version = moves ? toVersion : fromVersion;
    const frozen = computes ? reasonOf(audience) : null;
    const counts = { before, members, entered, exited, changed, invalid: 0, duplicates: 0, total };
    return { plan, key, kind, action, fromVersion, toVersion: version, ...counts, columns, frozen, moves };
  }

  async function stagedCounts(plan: string): Promise<Counts | null> {
    const found = await store.livePlan(plan);
    return found === null || found.record === '' ? null : (JSON.parse(found.record) as Counts);
  }

  const shown = (key: string, value: string | null): string | null =>
    value === null || kindOf(key) === 'audience' ? null : `{${JSON.stringify(key)}:${value}}`;

  const membersOf = (key: string, page: readonly LiveMember[]): MemberBatch => ({
    userIds: page.map(({ user }) => user),
    values: page.map(({ told }) => shown(key, told)),
    since: page.map(({ since }) => since),
  });

  async function changedBy(key: string, version: number, after: string, limit: number): Promise<readonly RunChange[]> {
    const page = await store.liveChangedBy(key, version, after, limit);
    return page.map(({ user, current, told }): RunChange => {
      const change = current === null ? 'exited' : told === null ? 'entered' : 'changed';
      return { userId: user, change, value: shown(key, current) };
    });
  }

  return {
    async snapshot(key) {
      const { version = 0, members = 0 } = (await audienceOf(key)) ?? {};
      return { version, members };
    },
    async stage(request) {
      const { plan, key, toVersion } = request;
      for (const old of await store.livePlansOf(key)) await store.dropLivePlan(old);
      await store.saveLivePlan(plan, { key, toVersion, record: '' });
      const counts = await counted(request, (rows) => store.addToLivePlan(plan, rows));
      await store.saveLivePlan(plan, { key, toVersion, record: JSON.stringify(counts) });
      return counts;
    },
    async describe({ key }) {
      const value = definedValue(key);
      return value === null ? [] : [valueColumn(key, value)];
    },
    async preview(request, sampleSize) {
      const sample: LivePlanRow[] = [];
      const counts = await counted(request, async (rows) => {
        sample.push(...rows.slice(0, Math.max(0, sampleSize - sample.length)));
      });
      return { ...counts, sample: batchOf(sample, (value) => shown(request.key, value)) };
    },
    staged: stagedCounts,
    async changes(plan, after, limit) {
      const { key = '' } = (await store.livePlan(plan)) ?? {};
      return batchOf(await store.livePlanRows(plan, after, limit), (value) => shown(key, value));
    },
    async commit(plan) {
      const counts = await stagedCounts(plan);
      if (!counts?.moves) return;
      const audience = await audienceOf(counts.key);
      if (audience === null || audience.version === counts.toVersion) return;
      if (audience.version !== counts.fromVersion) {
        throw new RollcallError('snapshot_moved', `Another run has moved the snapshot of ${counts.key}.`);
      }
      for (let after = 0; ; ) {
        const last = (await store.livePlanRows(plan, after, PAGE)).at(-1)?.position;
        if (last === undefined) break;
        await store.tellLivePlan(plan, after, last, now());
        after = last;
      }
      await store.advanceLive(counts.key, counts.toVersion);
    },
    async cut(plan, after) {
      const found = await store.livePlan(plan);
      const counts = await stagedCounts(plan);
      if (!found || !counts) return;
      await store.cutLivePlan(plan, after);
      let [entered, exited, changed, total] = [0, 0, 0, 0];
      for (let from = 0; ; ) {
        const rows = await store.livePlanRows(plan, from, PAGE);
        const last = rows.at(-1);
        if (last === undefined) break;
        for (const { told, value } of rows) {
          if (told === null && value !== null) entered += 1;
          else if (told !== null && value === null) exited += 1;
          else if (told !== value) changed += 1;
        }
        total += rows.length;
        from = last.position;
      }
      const members = counts.before + entered - exited;
      const record = JSON.stringify({ ...counts, entered, exited, changed, total, members });
      await store.saveLivePlan(plan, { ...found, record });
    },
    discard: (plan) => store.dropLivePlan(plan),
    drop: (key) => store.dropLive(key),
    async lookup(key, users, plan) {
      const members = await store.liveMembers(users, [key]);
      const told = members.filter(({ told, since }) => told !== null || since > 0);
      const found = new Map(
        told.map(({ user, told, since }) => [user, { present: told !== null, value: shown(key, told), since }]),
      );
      const { toVersion = 0 } = plan === undefined ? {} : ((await store.livePlan(plan)) ?? {});
      for (let after = 0; plan !== undefined; ) {
        const rows = await store.livePlanRows(plan, after, PAGE);
        const last = rows.at(-1);
        if (last === undefined) break;
        for (const { user, value } of rows) {
          if (users.includes(user))
            found.set(user, { present: value !== null, value: shown(key, value), since: toVersion });
        }
        after = last.position;
      }
      return found;
    },
    async *members(key): AsyncGenerator<MemberBatch> {
      for await (const page of pages(key, 'told')) yield membersOf(key, page);
    },
    memberPage: async (key, after, limit) => membersOf(key, await store.livePage(key, 'told', after, limit)),
    async *runChanges(key, version): AsyncGenerator<readonly RunChange[]> {
      for (let after = ''; ; ) {
        const page = await changedBy(key, version, after, PAGE);
        const last = page.at(-1);
        if (last === undefined) return;
        yield page;
        after = last.userId;
      }
    },
    runChangePage: changedBy,
    async history(key, user) {
      const past = await store.livePast(key, user);
      return past.map(({ value, since, until }) => ({ value: shown(key, value), since, until }));
    },
    async causes(key, user) {
      const causes = await store.liveCauses(key, user);
      return causes.map(({ cause, ...rest }) => ({ ...rest, event: cause === null ? null : JSON.parse(cause) }));
    },
    prune: (before) => store.pruneLive(before),
    async forget(users, keys = null) {
      await store.forgetLive(users, keys);
      if (keys === null) await forget(users);
    },
    scrub: async () => undefined,
    close: async () => undefined,
  };
}

/** What is told to somebody who is not in it. */
const GONE = '';

function whichOf({ action, leavers }: StageRequest): LiveWhich {
  if (action === 'sync') return 'behind';
  return action === 'resync' || leavers ? 'all' : 'told';
}

/** The value that a plan tells a user, GONE for none; null where there is nothing to tell. */
function rowOf({ current, told, since }: LiveMember, { action }: StageRequest): string | null {
  const isKnown = told !== null || since > 0;
  if (action === 'sync') return current ?? GONE;
  if (action === 'resync') return current !== null || isKnown ? (current ?? GONE) : null;
  if (!isKnown) return null;
  return action === 'backfill' ? (told ?? GONE) : GONE;
}

/** Why a person has to look at it first; other holds only say what goes on. */
function reasonOf(audience: LiveAudience | null): string | null {
  const hold = audience?.hold ?? null;
  if (hold === null || ['new', 'edited', 'behind', 'run'].includes(hold)) return null;
  return hold === 'rejected' ? 'What has changed since it was frozen was rejected before.' : hold;
}

function batchOf(rows: readonly LivePlanRow[], shown: (value: string | null) => string | null) {
  return {
    positions: rows.map(({ position }) => position),
    userIds: rows.map(({ user }) => user),
    present: rows.map(({ value }) => value !== null),
    values: rows.map(({ value }) => shown(value)),
  };
}
