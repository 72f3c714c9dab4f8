import type { Sequence } from '../../../src/definition/definition.ts';
import { KIND_VIEWS } from '../../../src/definition/log-views.ts';
import { literal } from '../sql/plan-query.ts';
import { messagesOf } from './activity.ts';
import type { DefinitionDialect } from './dialect.ts';

/** The most messages of a step that are looked at, the latest ones. */
export const MOST_MESSAGES = 1_000;

/** A message that may be a step of a sequence. */
export interface StepMessage {
  readonly sequence: number;
  /** The number of steps for the message of `not`. */
  readonly step: number;
  readonly at: number;
  readonly messageId: string;
  readonly event: string;
}

/** A query for a user's messages that may be steps, each written as an id. */
export function stepsQuery(user: string, sequences: readonly Sequence[], dialect: DefinitionDialect): string {
  const queries = sequences.flatMap(({ steps, not }, sequence) =>
    [...steps, ...(not ? [not] : [])].map(({ activity }, step) => {
      const name = activity.kind === 'track' ? 'event' : 'name';
      const done = messagesOf(activity, dialect, ['message_id', name]);
      const found = `SELECT done_at, message_id, coalesce(${name}, '') AS said FROM (${done}) AS own
        WHERE user_id = ${literal(user)} ORDER BY done_at DESC LIMIT ${MOST_MESSAGES}`;
      return `SELECT concat('${sequence}|${step}|', CAST(done_at AS varchar), '|', length(message_id), '|', message_id, said) AS user_id
        FROM (${found}) AS ${KIND_VIEWS[activity.kind]}`;
    }),
  );
  return queries.join('\nUNION ALL\n');
}

export function readStepMessage(text: string): StepMessage {
  const [sequence = '', step = '', at = '', length = ''] = text.split('|', 4);
  const said = [...text.slice([sequence, step, at, length].join('|').length + 1)];
  return {
    ...{ sequence: Number(sequence), step: Number(step), at: Date.parse(`${at.replace(' ', 'T')}Z`) },
    ...{ messageId: said.slice(0, Number(length)).join(''), event: said.slice(Number(length)).join('') },
  };
}
