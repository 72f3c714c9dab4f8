import { conditionSentences } from '../../src/config/sentences.ts';
import { holds, isInSplit, nameOf } from '../../src/definition/conditions.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import { computations, type SyncConfig } from '../audience-or-trait.ts';
import { askedPersonOf, definitionSql, withModels } from '../definition-sql.ts';
import { FORMER, SEEN } from '../engines/definitions/absence.ts';
import { type Evidence, readEvidence } from '../engines/definitions/evidence.ts';
import type { Engine, Preview, StageRequest } from '../engines/port.ts';
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

/** A condition of a short definition, and what is true of somebody. */
export interface ConditionAnswer extends Evidence {
  readonly condition: string;
  /** The condition in words; null if its variables don't allow it. */
  readonly says: string | null;
  readonly passes: boolean;
}

/** Milliseconds that the query may take. */
const PATIENCE = 10_000;

export interface AskedUser {
  readonly key: string;
  readonly user: string;
  readonly asOf: number;
  readonly signal: AbortSignal | undefined;
}

/** The preview of a query that no audience has. */
function previewed(
  look: ReadEngine,
  name: string,
  asked: Pick<StageRequest, 'sql' | 'funnel' | 'allowPlaceholders'>,
  most: number,
  { key, asOf, signal }: AskedUser,
): Promise<Preview> {
  const preview = (engine: Engine, until: AbortSignal) => {
    // No audience has this key: all rows are new.
    const request = { key: `why:${key}`, plan: 'why', kind: 'audience', action: 'sync', asOf, ...asked } as const;
    const given = { ...request, toVersion: 1, leavers: false, leasedAt: 0 };
    return engine.preview({ ...given, signal: AbortSignal.any([until, AbortSignal.timeout(PATIENCE)]) }, most);
  };
  return look(name, preview, signal);
}

/** Asks an engine for ids, at most so many. */
export async function askedIds(
  look: ReadEngine,
  name: string,
  sql: string,
  most: number,
  asked: AskedUser,
): Promise<ReadonlySet<string>> {
  return new Set((await previewed(look, name, { sql }, most, asked)).sample.userIds);
}

/** The answers of a short definition. Null if its SQL says nothing about them, or its engine does not answer. */
export async function conditionsOf(
  config: SyncConfig,
  look: ReadEngine,
  asked: AskedUser,
): Promise<{ readonly conditions: readonly ConditionAnswer[]; readonly absence: Absence } | null> {
  const { key, user } = asked;
  const computation = computations(config).find((each) => each.key === key);
  if (computation?.kind !== 'audience' || !computation.when) return null;
  const { when } = computation;
  try {
    const filled = await withModels(config, computation);
    const { funnel, facts, conditions } = askedPersonOf({ ...computation, when }, user, filled);
    // The SQL is not run, but names the views of the log.
    const given = { sql: definitionSql(computation, filled), funnel, allowPlaceholders: true };
    const preview = await previewed(look, computation.engine, given, 1, asked);
    const evidence = new Map(
      (readEvidence(preview.evidence ?? []).get(user) ?? []).map((each) => [each.path, each] as const),
    );
    const sentences = conditionSentences(config.written?.get(key));
    const isTrue = (place: number) => {
      const fact = facts[place];
      return fact?.kind === 'split' ? isInSplit(fact.split, user) : (preview.funnel?.[place] ?? 0) > 0;
    };
    const answers = conditions.map(({ path, part, formula, isRequired }) => ({
      ...{ path, times: 'performed' in part ? 0 : null, last: null, value: null, ...evidence.get(path) },
      ...{ condition: nameOf(part), says: sentences.get(path) ?? null, passes: holds(formula, isTrue), isRequired },
    }));
    const failing = answers.filter(({ isRequired, passes }) => isRequired && !passes);
    const former = evidence.get(FORMER)?.value ?? null;
    return {
      conditions: answers.map(({ isRequired, ...answer }) => answer),
      absence:
        former !== null
          ? { reason: 'former', user: String(JSON.parse(former)), failing: [] }
          : evidence.has(SEEN)
            ? {
                reason: 'condition',
                user: null,
                failing: failing.map(({ path, condition }) => `${path} (${condition})`),
              }
            : { reason: 'unknown', user: null, failing: [] },
    };
  } catch (error) {
    if (error instanceof RollcallError || (error instanceof Error && error.name === 'TimeoutError')) return null;
    throw error;
  }
}
