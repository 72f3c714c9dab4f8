import type { Compared, Comparison, StageRequest } from '../port.ts';
import type { SqlDatabase } from './session.ts';
import { readSnapshot, tablesOf } from './tables.ts';
import { TextRows } from './texts.ts';

/** Members of another engine, while they are compared. */
const OTHERS = 'rollcall_others';
const COLUMNS = ['user_id', 'value'].map((name) => ({ name, type: 'varchar' }));

/** Compares the members of a plan without a snapshot, whose rows are all of them. */
export async function compareAll(
  database: SqlDatabase,
  request: StageRequest,
  table: string,
  comparisons: readonly Comparison[],
): Promise<readonly Compared[]> {
  const compared: Compared[] = [];
  for (const comparison of comparisons) compared.push(await compareOne(database, request, table, comparison));
  return compared;
}

async function compareOne(
  database: SqlDatabase,
  { kind }: StageRequest,
  table: string,
  { key, members, sampleSize }: Comparison,
): Promise<Compared> {
  const { session, dialect } = database;
  if (members) {
    await session.run(`CREATE TEMPORARY TABLE ${OTHERS} (user_id varchar${dialect.binary} NOT NULL, value varchar)`);
    const rows = new TextRows(session, OTHERS, COLUMNS);
    await members(async ({ userIds, values }) => {
      rows.add([userIds, values.map((value) => value ?? '')], userIds.length);
      if (rows.isFull) await rows.write();
    });
    await rows.write();
  }
  const isKnown = members !== null || (await readSnapshot(database, key)).version > 0;
  const theirs = members ? OTHERS : isKnown ? tablesOf(session).members(key) : null;
  const other = theirs ?? `(SELECT user_id, value FROM ${table} WHERE FALSE)`;
  const joined = `(SELECT user_id, value FROM ${table} WHERE now AND user_id IS NOT NULL) AS draft
    FULL JOIN ${other} AS others ON others.user_id = draft.user_id`;
  const entered = 'others.user_id IS NULL';
  const exited = 'draft.user_id IS NULL';
  const both = 'others.user_id = draft.user_id';
  const changed = kind === 'trait' ? `${both} AND NOT ${dialect.isSame('others.value', 'draft.value')}` : 'FALSE';
  const counts = ['others.user_id IS NOT NULL', both, changed].map((rows) => `count(*) FILTER (WHERE ${rows})`);
  const [found = []] = await session.rows(`SELECT ${counts.join(', ')} FROM ${joined}`);
  const samples = Object.entries({ entered, exited, changed }).map(
    ([change, rows]) =>
      `(SELECT coalesce(draft.user_id, others.user_id), '${change}' FROM ${joined} WHERE ${rows} LIMIT ${sampleSize})`,
  );
  const sample = sampleSize > 0 ? await session.rows(samples.join(' UNION ALL ')) : [];
  if (members) await session.run(`DROP TABLE ${OTHERS}`);
  const [theirMembers = 0, shared = 0, different = 0] = found.map(Number);
  return {
    ...{ key, members: theirMembers, both: shared, changed: different },
    sample: sample.map(([userId, change]) => ({
      userId: String(userId),
      change: change as Compared['sample'][number]['change'],
    })),
  };
}
