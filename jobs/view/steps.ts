import { KIND_KEYS, pathOf, singlesIn } from '../../src/definition/conditions.ts';
import type { Sequence } from '../../src/definition/definition.ts';
import { stepsTaken } from '../../src/definition/sequence.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import { computations, type SyncConfig } from '../audience-or-trait.ts';
import { stepsSql } from '../definition-sql.ts';
import { MOST_MESSAGES, readStepMessage, type StepMessage } from '../engines/definitions/steps.ts';
import type { ReadEngine } from '../open-engines.ts';
import { type AskedUser, askedIds } from './absence.ts';

/** A step of a sequence, as far as somebody came. */
export interface StepTaken {
  readonly path: string;
  readonly condition: string;
  /** The message that was this step, or that came in spite of `not`; null if there is none. */
  readonly event: Pick<StepMessage, 'messageId' | 'event' | 'at'> | null;
  /** For `not`: when its time has passed, or will have; null if the steps before it are missing. */
  readonly until: number | null;
  /** True once that time has passed. */
  readonly isOver: boolean;
}

/** The steps of all sequences in a definition. None if its engine does not answer. */
export async function stepsOf(config: SyncConfig, look: ReadEngine, asked: AskedUser): Promise<readonly StepTaken[]> {
  const computation = computations(config).find(({ key }) => key === asked.key);
  if (computation?.kind !== 'audience' || !computation.when) return [];
  const sequences = singlesIn(computation.when, ['when']).flatMap(({ path, single }) =>
    'sequence' in single ? [{ path: pathOf(path).slice(1), sequence: single.sequence }] : [],
  );
  if (sequences.length === 0) return [];
  const all = sequences.map(({ sequence }) => sequence);
  const most = all.reduce((sum, { steps }) => sum + (steps.length + 1) * MOST_MESSAGES, 0);
  try {
    const sql = stepsSql(computation, asked.user, all, config);
    const found = [...(await askedIds(look, computation.engine, sql, most, asked))].map(readStepMessage);
    return sequences.flatMap(({ path, sequence }, place) => {
      const own = found.filter((message) => message.sequence === place);
      return stepsIn(path, sequence, own, asked.asOf);
    });
  } catch (error) {
    if (error instanceof RollcallError || (error instanceof Error && error.name === 'TimeoutError')) return [];
    throw error;
  }
}

function stepsIn(path: string, sequence: Sequence, own: readonly StepMessage[], now: number): readonly StepTaken[] {
  const { steps, not } = sequence;
  const doneIn = (step: number) =>
    own
      .filter((message) => message.step === step)
      .map(({ at, messageId, event }) => [at, at, messageId, event] as const);
  const { taken, answer, until } = stepsTaken(
    sequence,
    steps.map((_, step) => doneIn(step)),
    not ? doneIn(steps.length) : [],
    now,
  );
  const eventOf = (done: (typeof taken)[number] | null) =>
    done ? { messageId: done[2], event: String(done[3]), at: done[0] } : null;
  const lines = steps.map(({ activity }, step): StepTaken => {
    const condition = KIND_KEYS[activity.kind];
    return {
      path: `${path}.sequence[${step}]`,
      condition,
      event: eventOf(taken[step] ?? null),
      until: null,
      isOver: false,
    };
  });
  if (not === null) return lines;
  const isOver = until !== null && until <= now;
  const last = { path: `${path}.sequence[${steps.length}]`, condition: 'not', event: eventOf(answer), until, isOver };
  return [...lines, last];
}
