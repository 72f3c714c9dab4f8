import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../../src/kernel/clock.ts';
import { type EngineCase, engineCases, type Spelling } from '../../engines/contract/index.ts';
import { openDuckdb } from '../../engines/duckdb/duckdb.ts';
import type { Engine } from '../../engines/port.ts';
import type { Reader } from '../port.ts';
import { readingCases } from './reading-cases.ts';

export type { Spelling } from '../../engines/contract/index.ts';

/** A reader to try, and its database's spelling of things. The database may be empty. */
export interface ReaderFixture {
  open(): Promise<Reader>;
  /** Differences from most databases. */
  readonly spelling?: Partial<Spelling>;
}

export interface ReaderCase {
  /** The name of the test. */
  readonly name: string;
  /** Rejects with an `AssertionError` if the reader fails the case. Works in any test runner. */
  run(fixture: ReaderFixture): Promise<void>;
}

/** The cases of engines, whose definitions are read and whose snapshots are in DuckDB, and some about reading alone. */
export const readerCases: readonly ReaderCase[] = [...engineCases, ...readingCases].map(({ name, run }) => ({
  name,
  run: (fixture) => withHome(fixture, run),
}));

async function withHome({ open, spelling = {} }: ReaderFixture, run: EngineCase['run']): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-reader-'));
  const opened: Engine[] = [];
  const reopen = async ({ readOnly = false }: { readonly readOnly?: boolean } = {}) => {
    const config = { type: 'duckdb', path: join(folder, 'home.duckdb'), memoryLimit: null, threads: 1 } as const;
    const engine = await openDuckdb(config, { folder, clock: systemClock, readOnly, reads: open });
    opened.push(engine);
    return engine;
  };
  try {
    await run(async () => ({ engine: await reopen(), reopen, spelling }));
  } finally {
    for (const engine of opened) await engine.close().catch(() => {});
    await rm(folder, { recursive: true, force: true });
  }
}
