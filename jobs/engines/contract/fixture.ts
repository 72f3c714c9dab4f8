import type { ChangeBatch, Engine, StageRequest } from '../port.ts';

/** Syntax that differs between databases. Null: the database has nothing of the kind, and its cases are left out. */
export interface Spelling {
  /** A cast to text. */
  text(quoted: string): string;
  list: ((items: readonly string[]) => string) | null;
  /** A timestamp with or without milliseconds. */
  moment(text: string): string;
  day(text: string): string;
  /** A double, also for `nan` and `infinity` if there are such. */
  double(text: string): string;
  repeat(text: string, times: number): string;
  /** Rows with the numbers from 1 on in a column `n`. */
  series(count: number): string;
  /** A query with ids that takes longer than anybody waits. */
  readonly endless: string;
  /** A query that fails as it runs. */
  readonly failing: string | null;
  /** True if `true` is a type of its own. */
  readonly hasBooleans: boolean;
  readonly hasNaN: boolean;
  /** True if dates and timestamps can be infinite. */
  readonly hasInfinity: boolean;
  /** True if there are times of day. */
  readonly hasTimes: boolean;
  /** True if columns have types, not only values. */
  readonly hasTypes: boolean;
}

const STANDARD: Spelling = {
  text: (quoted) => `cast(${quoted} as varchar)`,
  list: (items) => `array[${items.join(', ')}]`,
  moment: (text) => `timestamp '${text}'`,
  day: (text) => `date '${text}'`,
  double: (text) => `cast('${text}' as double precision)`,
  repeat: (text, times) => `repeat(repeat('${text}', ${times / 1_000}), 1000)`,
  series: (count) => `select generate_series as n from generate_series(1, ${count})`,
  endless:
    'with recursive n as (select 1 as i union all select i + 1 from n where i < 2000000000) select i as user_id from n',
  failing: `select 'x' as user_id from (select 'x' as word) as words where 1 = cast(word as integer)`,
  hasBooleans: true,
  hasNaN: true,
  hasInfinity: true,
  hasTimes: true,
  hasTypes: true,
};

/** A new engine over an empty database; `reopen` opens the same database again. */
export interface EngineFixture {
  readonly engine: Engine;
  /** Differences from most databases. */
  readonly spelling?: Partial<Spelling>;
  /** Features that the engine lacks: columns of audiences, and differences for destinations that were away. */
  readonly leavesOut?: readonly ('columns' | 'differences')[];
  reopen(options?: { readonly readOnly: boolean }): Promise<Engine>;
}

/** A fixture as cases use it. */
export interface SpelledFixture extends EngineFixture {
  readonly spelling: Spelling;
  readonly leavesOut: NonNullable<EngineFixture['leavesOut']>;
  /** A query that returns these ids; null is a row without one. */
  usersSql(...users: readonly (string | null)[]): string;
}

export async function spelled(open: () => Promise<EngineFixture>): Promise<SpelledFixture> {
  const fixture = await open();
  const spelling = { ...STANDARD, ...fixture.spelling };
  return { leavesOut: [], ...fixture, spelling, usersSql: (...users) => idsSql(users, spelling) };
}

/** `user: present`, or the parsed traits of a computed trait, in the order of the plan. */
export function told(batch: ChangeBatch): [string, unknown][] {
  return batch.userIds.map((user, index) => {
    const value = batch.values[index];
    return [user, typeof value === 'string' ? JSON.parse(value) : batch.present[index]];
  });
}

/** A condition needs rows to choose from. */
export const ONE = '(select 1 as one) as row_of_one';

/** A query that returns these ids, as most databases spell it; null is a row without one. */
export function usersSql(...users: readonly (string | null)[]): string {
  return idsSql(users, STANDARD);
}

function idsSql(users: readonly (string | null)[], { text }: Spelling): string {
  if (users.length === 0) return `select ${text("''")} as user_id from ${ONE} where 1 = 0`;
  // Not every database casts a null to text.
  const texts = users.map((user) => (user === null ? `nullif('', '')` : text(`'${user.replaceAll("'", "''")}'`)));
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
