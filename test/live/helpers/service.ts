import type { App } from '../../../src/app.ts';

/** All that was accepted is computed. */
export const computed = (app: App): Promise<void> => until(app, ({ lag, progress }) => lag === 0 && progress === null);

/** All that was accepted is computed, and nothing is on hold. */
export const caughtUp = (app: App): Promise<void> =>
  until(app, ({ lag, progress, hold }) => lag === 0 && progress === null && hold === null);

type Standing = NonNullable<Awaited<ReturnType<App['sync']['audiences']>>[number]['live']>;

async function until(app: App, isSo: (standing: Standing) => boolean): Promise<void> {
  for (;;) {
    const statuses = (await app.sync.audiences()).flatMap(({ live }) => live ?? []);
    if (statuses.length > 0 && statuses.every(isSo)) return;
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
}

/** Each member's value; of an audience true. */
export async function membersOf(app: App, key: string): Promise<ReadonlyMap<string, unknown>> {
  const found: [string, unknown][] = [];
  await app.sync.members(key, async ({ userIds, values }) => {
    for (const [index, user] of userIds.entries()) {
      const value = values[index] ?? null;
      found.push([user, value === null ? true : Object.values(JSON.parse(value))[0]]);
    }
  });
  return new Map(found.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

export async function delivered(app: App): Promise<void> {
  while ((await app.store.backlog()).some(({ pending }) => pending > 0))
    await new Promise((resolve) => setTimeout(resolve, 30));
}
