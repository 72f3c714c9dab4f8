import type { Clock } from '../../../src/kernel/clock.ts';
import type { SqlSession } from '../sql/session.ts';
import { inSchema } from '../sql/tables.ts';
import { looksTable } from './sources/looks.ts';

/** A block is 256 KB: this many random numbers of 8 bytes, which don't compress. */
const NUMBERS_PER_BLOCK = 32_768;
const METADATA_BLOCK = 4_096;
/** More than one is needed if the filler's own catalog took a block. */
const ROUNDS = 8;
/** Reads of other sessions may prevent a checkpoint. It is retried for this many milliseconds, at this interval. */
const PATIENCE = 10_000;
const RETRY = 20;

/**
 * Overwrites what deleted rows left in the file. DuckDB only marks rows as deleted, and freed blocks keep their
 * content. So the tables are rewritten, and all free blocks are filled with noise once.
 */
export async function scrubFile(session: SqlSession, clock: Clock, tables: readonly string[]): Promise<void> {
  // A block may hold rows of several tables, and is free only without all of them.
  await session.run(`DROP TABLE IF EXISTS ${looksTable(session)}`);
  for (const table of tables) await rewrite(session, table);
  // Each checkpoint frees blocks of the one before.
  await checkpoint(session, clock);
  await checkpoint(session, clock);
  const filler = (number: number) => inSchema(session, `filler${number}`);
  let fillers = 0;
  for (; fillers < ROUNDS; fillers += 1) {
    const free = await freeBlocks(session);
    if (free === 0 && fillers > 0) break;
    const numbers = (free + 1) * NUMBERS_PER_BLOCK;
    await session.run(
      `CREATE OR REPLACE TABLE ${filler(fillers)} AS SELECT hash(n * 7919 + ${fillers}) AS noise FROM range(${numbers}) AS numbers(n)`,
    );
    await checkpoint(session, clock);
  }
  // Statistics contain the least and greatest value of a column. Like comments, they are stored apart from the rows.
  await session.run(`COMMENT ON TABLE ${filler(0)} IS '${'x'.repeat((await freeMetadata(session)) + METADATA_BLOCK)}'`);
  await checkpoint(session, clock);
  for (let number = 0; number < fillers; number += 1) await session.run(`DROP TABLE ${filler(number)}`);
  await checkpoint(session, clock);
}

async function checkpoint(session: SqlSession, clock: Clock): Promise<void> {
  for (const start = clock.monotonic(); ; await clock.sleep(RETRY)) {
    try {
      await session.run('CHECKPOINT');
      return;
    } catch (error) {
      const mayPass = error instanceof Error && error.message.includes('Cannot CHECKPOINT');
      if (!mayPass || clock.monotonic() - start >= PATIENCE) throw error;
    }
  }
}

async function rewrite(session: SqlSession, table: string): Promise<void> {
  const name = table.slice(table.indexOf('.') + 1);
  const rewritten = inSchema(session, 'rewritten');
  await session.run('BEGIN');
  try {
    await session.run(`CREATE TABLE ${rewritten} AS FROM ${table}`);
    await session.run(`DROP TABLE ${table}`);
    await session.run(`ALTER TABLE ${rewritten} RENAME TO ${name}`);
    await session.run('COMMIT');
  } catch (error) {
    await session.run('ROLLBACK').catch(() => {});
    throw error;
  }
}

/** Free bytes in the file's blocks for metadata. */
async function freeMetadata(session: SqlSession): Promise<number> {
  const [row] = await session.rows('SELECT sum(free_blocks) FROM pragma_metadata_info()');
  return Number(row?.[0] ?? 0) * METADATA_BLOCK;
}

async function freeBlocks(session: SqlSession): Promise<number> {
  const [row] = await session.rows(
    'SELECT free_blocks FROM pragma_database_size() WHERE database_name = current_database()',
  );
  return Number(row?.[0] ?? 0);
}
