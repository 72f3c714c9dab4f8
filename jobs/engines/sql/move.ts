import type { MovableSnapshot } from '../port.ts';
import { literal } from './plan-query.ts';
import { type SqlDatabase, type SqlSession, transaction } from './session.ts';
import { createSnapshotTables, dropPlan, dropSnapshot, readSnapshot, tablesOf, withIdHashes } from './tables.ts';
import { type RowColumn, TextRows } from './texts.ts';

const ID: RowColumn = { name: 'user_id', type: 'varchar' };
const VALUE: RowColumn = { name: 'value', type: 'varchar' };
const version = (name: string): RowColumn => ({ name, type: 'bigint' });

/** Columns of the tables of a key, the same in every engine. */
const PARTS = {
  members: [ID, VALUE, version('since')],
  leavers: [ID, version('since')],
  history: [{ name: 'key', type: 'varchar' }, ID, VALUE, ...['since', 'until', 'ended_at'].map(version)],
} as const;

function partsOf(session: SqlSession, key: string) {
  const { members, leavers, history } = tablesOf(session);
  return { members: members(key), leavers: leavers(key), history };
}

/** Blanks of JSON outside its strings: databases write it with and without, and not all ignore them. */
const BLANKS = /("(?:[^"\\]|\\.)*")|\s+/g;

const textOf = (value: unknown) => (value === null ? '' : String(value));
const compact = (value: unknown) => textOf(value).replaceAll(BLANKS, '$1');

export async function readForMove(database: SqlDatabase, key: string): Promise<MovableSnapshot> {
  const { session } = database;
  const snapshot = await readSnapshot(database, key);
  async function* parts() {
    for (const part of ['members', 'leavers', 'history'] as const) {
      const table = partsOf(session, key)[part];
      const condition = part === 'history' ? ` WHERE key = ${literal(key)}` : '';
      const columns = PARTS[part].map(({ name }) => name).join(', ');
      for await (const found of session.stream(`SELECT ${columns} FROM ${table}${condition}`)) {
        yield {
          part,
          columns: found.map((column, place) => column.map(PARTS[part][place] === VALUE ? compact : textOf)),
        };
      }
    }
  }
  return { ...snapshot, parts: parts() };
}

/** Puts what another engine had in place of what is here, in one transaction. */
export function writeMoved(database: SqlDatabase, key: string, moved: MovableSnapshot): Promise<void> {
  const { session, tuned } = database;
  return transaction(session, async () => {
    await removeKey(session, key);
    await createSnapshotTables(database, key);
    const tables = partsOf(session, key);
    await withIdHashes(database, Object.values(tables), async () => {
      for await (const { part, columns } of moved.parts) {
        const rows = new TextRows(session, tables[part], PARTS[part]);
        rows.add(columns, columns[0]?.length ?? 0);
        await rows.write();
      }
    });
    await session.run(
      `INSERT INTO ${tablesOf(session).snapshots} VALUES (${literal(key)}, ${moved.version}, ${moved.members})`,
    );
    for (const statement of tuned.members(tables.members)) await session.run(statement);
  });
}

export function removeMoved({ session }: SqlDatabase, key: string): Promise<void> {
  return transaction(session, () => removeKey(session, key));
}

async function removeKey(session: SqlSession, key: string): Promise<void> {
  await dropSnapshot(session, key);
  await session.run(`DELETE FROM ${tablesOf(session).history} WHERE key = ${literal(key)}`);
  const plans = await session.rows(`SELECT plan FROM ${tablesOf(session).plans} WHERE key = ${literal(key)}`);
  for (const [plan] of plans) await dropPlan(session, String(plan));
}
