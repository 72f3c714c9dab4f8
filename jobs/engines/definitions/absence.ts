import {
  type Condition,
  conditionsIn,
  type Fact,
  type Formula,
  factsOf,
  singlesIn,
} from '../../../src/definition/conditions.ts';
import type { Funnel } from '../port.ts';
import { literal } from '../sql/plan-query.ts';
import { flaggedPeople } from './condition.ts';
import type { DefinitionDialect } from './dialect.ts';
import { evidenceQuery } from './evidence.ts';
import { type NamedSql, peopleQuery } from './facts.ts';

/** Paths of evidence that is not about a condition. */
export const SEEN = 'seen';
export const FORMER = 'former';

export interface AskedPerson {
  /** Its counts are the facts, and its evidence has SEEN if the log knows the user, FORMER with the current id if there is one. */
  readonly funnel: Funnel;
  readonly facts: readonly Fact[];
  /** Each with the formula of its facts. */
  readonly conditions: readonly (ReturnType<typeof conditionsIn>[number] & { readonly formula: Formula })[];
}

/** Takes a definition apart to ask what is true of one user. */
export function askedPerson(user: string, when: Condition, named: NamedSql, dialect: DefinitionDialect): AskedPerson {
  const parts = conditionsIn(when);
  const { facts, formula } = factsOf({ all: parts.map(({ part }) => part) });
  const formulas = 'all' in formula ? formula.all : [];
  const isLogged = facts.some(({ kind }) => kind !== 'split');
  const [self, isUser] = [`SELECT ${literal(user)} AS user_id`, `WHERE user_id = ${literal(user)}`];
  const found = (path: string, value: string, rows: string) =>
    `SELECT ${literal(user)} AS user_id, '${path}' AS path, 0 AS times, 0 AS last, ${value} AS value FROM ${rows}`;
  return {
    funnel: {
      // Nobody else is needed, so nobody is added of whom no fact is true.
      people: isLogged
        ? `SELECT * FROM (\n${flaggedPeople({ facts, formula: { any: [] } }, named, dialect)}\n) AS people ${isUser}`
        : self,
      sql: self,
      counts: facts.map(({ kind }, place) => (kind === 'split' ? 'FALSE' : `fact${place}`)),
      evidence: [
        evidenceQuery(singlesIn(when, []), named, dialect),
        found(SEEN, 'CAST(NULL AS varchar)', `(\n${peopleQuery(dialect)}\n) AS people ${isUser}`),
        found(
          FORMER,
          'CAST(to_json(user_id) AS varchar)',
          `${dialect.view('identities')} WHERE kind = 'user' AND id = ${literal(user)} AND user_id <> ${literal(user)}`,
        ),
      ].join('\nUNION ALL\n'),
    },
    facts,
    conditions: parts.map((each, place) => ({ ...each, formula: formulas[place] ?? { all: [] } })),
  };
}
