import type { LiveAudience, LiveMember, LiveState, LiveWhich } from '../../../src/store/live.ts';
import type { Cause, Interval, MemberBatch, RunChange, Standing } from '../port.ts';
import { type LiveContext, PAGE, planned, shown } from './context.ts';
import { planRows } from './plan.ts';

/** The audience in the store; null until it is first computed. */
export async function readAudience(store: LiveState, key: string): Promise<LiveAudience | null> {
  return (await store.audiences()).find((audience) => audience.key === key) ?? null;
}

/** Pages of users, ordered by id. Each is read from the last user of the page before it. */
async function* pages<T>(
  read: (after: string) => Promise<readonly T[]>,
  userOf: (row: T) => string,
): AsyncGenerator<readonly T[]> {
  for (let after = ''; ; ) {
    const page = await read(after);
    const last = page.at(-1);
    if (last === undefined) return;
    yield page;
    after = userOf(last);
  }
}

export function memberPages(store: LiveState, key: string, which: LiveWhich): AsyncGenerator<readonly LiveMember[]> {
  return pages(
    (after) => store.memberPage(key, which, after, PAGE),
    ({ user }) => user,
  );
}

const batchOf = (live: LiveContext, key: string, page: readonly LiveMember[]): MemberBatch => ({
  userIds: page.map(({ user }) => user),
  values: page.map(({ told }) => shown(live, key, told)),
  since: page.map(({ since }) => since),
});

export async function* eachMember(live: LiveContext, key: string): AsyncGenerator<MemberBatch> {
  for await (const page of memberPages(live.store, key, 'told')) yield batchOf(live, key, page);
}

export async function memberPage(live: LiveContext, key: string, after: string, limit: number): Promise<MemberBatch> {
  return batchOf(live, key, await live.store.memberPage(key, 'told', after, limit));
}

/** Users who entered, left or changed with a version. */
export async function changedBy(
  live: LiveContext,
  ...[key, version, after, limit]: Parameters<LiveState['changedBy']>
): Promise<readonly RunChange[]> {
  const page = await live.store.changedBy(key, version, after, limit);
  return page.map(({ user, current, told }): RunChange => {
    const change = current === null ? 'exited' : told === null ? 'entered' : 'changed';
    return { userId: user, change, value: shown(live, key, current) };
  });
}

export function eachChangedBy(live: LiveContext, key: string, version: number): AsyncGenerator<readonly RunChange[]> {
  return pages(
    (after) => changedBy(live, key, version, after, PAGE),
    ({ userId }) => userId,
  );
}

/** The value that each of these users has, once the plan (if one is given) is committed. */
export async function lookupUsers(
  live: LiveContext,
  key: string,
  users: readonly string[],
  plan?: string,
): Promise<ReadonlyMap<string, Standing>> {
  const { store } = live;
  const found = new Map<string, Standing>();
  for (const { user, told, since } of await store.membersOf(users, [key])) {
    const isKnown = told !== null || since > 0;
    if (isKnown) found.set(user, { present: told !== null, value: shown(live, key, told), since });
  }
  if (plan === undefined) return found;
  const { toVersion = 0 } = (await store.findPlan(plan)) ?? {};
  for await (const rows of planRows(store, plan)) {
    for (const row of rows) {
      if (!users.includes(row.user)) continue;
      found.set(row.user, { present: row.value !== null, value: planned(live, key, row), since: toVersion });
    }
  }
  return found;
}

export async function readHistory(live: LiveContext, key: string, user: string): Promise<readonly Interval[]> {
  const past = await live.store.pastValues(key, user);
  return past.map(({ value, since, until }) => ({ value: shown(live, key, value), since, until }));
}

export async function readCauses(store: LiveState, key: string, user: string): Promise<readonly Cause[]> {
  const causes = await store.causesOf(key, user);
  return causes.map(({ version, at, changedAt, cause }) => {
    const {
      audience = null,
      computed = null,
      deletion = false,
      time = null,
      ...event
    } = JSON.parse(cause ?? 'null') ?? {};
    return {
      version,
      at,
      changedAt: changedAt ?? at,
      audience,
      computed,
      deletion,
      time,
      event: 'messageId' in event ? event : null,
    };
  });
}
