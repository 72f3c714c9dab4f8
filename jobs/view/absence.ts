import { conjunctsOf, nameOf } from '../../src/definition/conditions.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import { computations, type SyncConfig } from '../audience-or-trait.ts';
import { absenceSql, withModels } from '../definition-sql.ts';
import { FORMER, HOLDS, SEEN } from '../engines/definitions/absence.ts';
import type { Engine } from '../engines/port.ts';
import type { ReadEngine } from '../open-engines.ts';

/** The reason why somebody is not in an audience with a short definition. */
export interface Absence {
  /** `former`: an alias made another id of it. `unknown`: the event log has nothing of this id. */
  readonly reason: 'former' | 'unknown' | 'condition';
  /** The current id of a former one. */
  readonly user: string | null;
  /** The parts of the condition that fail, such as `when.all[1] (trait)`. None: the next sync adds the user. */
  readonly failing: readonly string[];
}

/** Milliseconds that the query may take. */
const PATIENCE = 10_000;

export interface AskedUser {
  readonly key: string;
  readonly user: string;
  readonly asOf: number;
  readonly signal: AbortSignal | undefined;
}

/** Asks an engine for ids, at most so many. */
export async function askedIds(
  look: ReadEngine,
  name: string,
  sql: string,
  most: number,
  { key, asOf, signal }: AskedUser,
): Promise<ReadonlySet<string>> {
  const preview = async (engine: Engine, until: AbortSignal) => {
    // No audience has this key: all rows are new.
    const request = { key: `why:${key}`, plan: 'why', kind: 'audience', action: 'sync', sql, asOf } as const;
    const given = { ...request, toVersion: 1, leavers: false, leasedAt: 0 };
    const ends = AbortSignal.any([until, AbortSignal.timeout(PATIENCE)]);
    return new Set((await engine.preview({ ...given, signal: ends }, most)).sample.userIds);
  };
  return look(name, preview, signal);
}

/** Null if its SQL says nothing about the reason, or its engine does not answer. */
export async function absenceOf(config: SyncConfig, look: ReadEngine, asked: AskedUser): Promise<Absence | null> {
  const { key, user } = asked;
  const computation = computations(config).find((each) => each.key === key);
  if (computation?.kind !== 'audience' || !computation.when) return null;
  const parts = conjunctsOf(computation.when, 'when');
  try {
    const sql = absenceSql(computation, user, await withModels(config, computation));
    const found = await askedIds(look, computation.engine, sql, parts.length + 2, asked);
    const former = [...found].find((each) => each.startsWith(FORMER));
    if (former !== undefined) return { reason: 'former', user: former.slice(FORMER.length), failing: [] };
    if (!found.has(SEEN)) return { reason: 'unknown', user: null, failing: [] };
    const failing = parts.filter((_, place) => !found.has(`${HOLDS}${place}`));
    return { reason: 'condition', user: null, failing: failing.map(({ path, part }) => `${path} (${nameOf(part)})`) };
  } catch (error) {
    if (error instanceof RollcallError || (error instanceof Error && error.name === 'TimeoutError')) return null;
    throw error;
  }
}
