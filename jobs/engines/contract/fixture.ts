import type { ChangeBatch, Engine, StageRequest } from '../port.ts';

/** Syntax that differs between databases. */
export interface Spelling {
  list(items: readonly string[]): string;
  /** A timestamp with milliseconds. */
  moment(text: string): string;
  /** True if dates and timestamps can be infinite. */
  readonly hasInfinity: boolean;
  /** True if there are times of day. */
  readonly hasTimes: boolean;
}

export const STANDARD: Spelling = {
  list: (items) => `array[${items.join(', ')}]`,
  moment: (text) => `timestamp '${text}'`,
  hasInfinity: true,
  hasTimes: true,
};

/** A new engine over an empty database; `reopen` opens the same database again. */
export interface EngineFixture {
  readonly engine: Engine;
  /** Defaults to that of most databases. */
  readonly spelling?: Spelling;
  reopen(options?: { readonly readOnly: boolean }): Promise<Engine>;
}

/** `user: present`, or the parsed traits of a computed trait, in the order of the plan. */
export function told(batch: ChangeBatch): [string, unknown][] {
  return batch.userIds.map((user, index) => {
    const value = batch.values[index];
    return [user, typeof value === 'string' ? JSON.parse(value) : batch.present[index]];
  });
}

/** A query that returns these ids; null is a row without one. */
export function usersSql(...users: readonly (string | null)[]): string {
  if (users.length === 0) return `select cast('' as varchar) as user_id where 1 = 0`;
  // Not every database casts a null to text.
  const texts = users.map((user) =>
    user === null ? `nullif('', '')` : `cast('${user.replaceAll("'", "''")}' as varchar)`,
  );
  return texts.map((text) => `select ${text} as user_id`).join(' union all ');
}

let plans = 0;

export function request(changes: Partial<StageRequest> = {}): StageRequest {
  plans += 1;
  return {
    plan: `plan-${plans}`,
    key: 'club',
    kind: 'audience',
    action: 'sync',
    sql: usersSql(),
    asOf: Date.parse('2026-03-01T12:00:00Z'),
    toVersion: 1,
    leavers: false,
    leasedAt: plans,
    ...changes,
  };
}

/** Stages and commits a membership as a sync does. */
export async function settle(engine: Engine, changes: Partial<StageRequest>): Promise<void> {
  const { version } = await engine.snapshot(changes.key ?? 'club');
  const staged = await engine.stage(request({ toVersion: version + 1, ...changes }));
  await engine.commit(staged.plan);
  await engine.discard(staged.plan);
}
