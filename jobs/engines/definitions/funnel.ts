import {
  type Condition,
  conjunctsOf,
  type Formula,
  factsOf,
  KIND_KEYS,
  mayHoldForAll,
  nameOf,
  pathOf,
  singlesIn,
} from '../../../src/definition/conditions.ts';
import { placeholderSql } from '../../../src/kernel/placeholders.ts';
import type { Funnel } from '../port.ts';
import { FUNNEL_TABLE } from '../sql/tables.ts';
import { flaggedPeople, formulaCondition, stepFlag } from './condition.ts';
import type { DefinitionDialect } from './dialect.ts';
import { evidenceQuery } from './evidence.ts';
import type { NamedSql } from './facts.ts';

/** A condition and the places of its counts; null for what could be counted only by reading everybody in the log. */
interface FunnelLine {
  readonly path: string;
  readonly condition: string;
  readonly people: number | null;
  /** People left after all conditions above that must hold. */
  readonly left: number | null;
}

export interface CountedDefinition {
  readonly funnel: Funnel;
  readonly lines: readonly FunnelLine[];
  /** As `Funnel.evidence`, which plans do without. */
  readonly evidence: string;
}

/** Takes a condition apart, so that its people are found once for the definition and for all counts. */
export function countedDefinition(
  when: Condition,
  allowPlaceholders: boolean,
  named: NamedSql,
  dialect: DefinitionDialect,
): CountedDefinition {
  const conjuncts = conjunctsOf(when, 'when');
  const inner = conjuncts.map(({ path, part }) =>
    singlesIn(part, []).map((single) => ({ path: `${path}${pathOf(single.path)}`, part: single.single })),
  );
  const parts = [...conjuncts, ...inner.flat()].map(({ part }) => part);
  const { facts, formula } = factsOf({ all: parts });
  const formulas = 'all' in formula ? formula.all : [];
  const whole: Formula = { all: formulas.slice(0, conjuncts.length) };
  const knowsAll = mayHoldForAll({ facts, formula: whole });
  // The plan counts them, as invalid.
  const somebody = allowPlaceholders ? '' : ` AND NOT ${placeholderSql('user_id')}`;
  const counts: string[] = [];
  const counted = (of: Formula, more = ''): number | null =>
    knowsAll || more !== '' || !mayHoldForAll({ facts, formula: of })
      ? counts.push(`${formulaCondition(of)}${more}${somebody}`) - 1
      : null;
  const lines = conjuncts.flatMap(({ path, part }, place): readonly FunnelLine[] => {
    const own = formulas[place] as Formula;
    const before = whole.all.slice(0, place);
    const line = { path, condition: nameOf(part), people: counted(own), left: counted({ all: [...before, own] }) };
    if ('sequence' in part && 'fact' in own) {
      const { steps } = part.sequence;
      const all = steps.map(({ activity }, step): FunnelLine => {
        const flag = ` AND ${stepFlag(own.fact, step)}`;
        const condition = KIND_KEYS[activity.kind];
        const people = counted({ all: [] }, flag);
        return { path: `${path}.sequence[${step}]`, condition, people, left: counted({ all: before }, flag) };
      });
      return part.sequence.not === null
        ? all
        : [...all, { ...line, path: `${path}.sequence[${steps.length}]`, condition: 'not' }];
    }
    const ownParts = inner[place] ?? [];
    if (ownParts.length === 1 && ownParts[0]?.path === path) return [line];
    const offset = conjuncts.length + inner.slice(0, place).flat().length;
    const further = ownParts.map(
      (single, index): FunnelLine => ({
        path: single.path,
        condition: nameOf(single.part),
        people: counted(formulas[offset + index] as Formula),
        left: null,
      }),
    );
    return [line, ...further];
  });
  const people = flaggedPeople({ facts, formula: whole }, named, dialect, true);
  return {
    funnel: { people, sql: `SELECT user_id FROM ${FUNNEL_TABLE} WHERE ${formulaCondition(whole)}`, counts },
    lines,
    evidence: evidenceQuery(singlesIn(when, []), named, dialect),
  };
}
