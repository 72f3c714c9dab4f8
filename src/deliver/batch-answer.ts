import * as z from 'zod';
import { type Exchange, withoutSecrets } from './exchange.ts';
import { UNHANDLED } from './response-text.ts';

const index = z.number().int().nonnegative();
// Many languages write null for an absent value, as Go does for a nil slice.
const rejection = z.object({
  index,
  code: z.string().catch('rejected'),
  retry: z
    .boolean()
    .nullish()
    .transform((retry) => retry ?? true),
});
const answer = z.object({
  rejected: z
    .array(rejection)
    .nullish()
    .transform((rejected) => rejected ?? []),
  /** The kit names messages without a handler. It accepts them, so nothing of this may fail. */
  unhandled: z.array(index).catch([]),
});

/**
 * The exchange of each message of a batch. A 2xx accepts all but those that a JSON answer names; other statuses apply
 * to all.
 *
 * @param secrets - removed from the answer's codes
 */
export function readAnswer(exchange: Exchange, size: number, secrets: readonly string[]): readonly Exchange[] {
  const all = (each: Exchange) => Array.from({ length: size }, () => each);
  if (exchange.outcome !== 'success' || exchange.answer === undefined) return all(exchange);
  const read = contentOf(exchange.answer, size);
  // It is unknown which were accepted: all are sent again.
  if (read === null) return all({ ...exchange, outcome: 'retry', error: 'invalid_answer' });
  const { rejected, unhandled } = read;
  const results = all(exchange);
  for (const index of unhandled) if (index < size) results[index] = { ...exchange, error: UNHANDLED };
  for (const { index, code, retry } of rejected) {
    const error = `rejected_${withoutSecrets(code, secrets).replaceAll(/\W/g, '_').slice(0, 40)}`;
    results[index] = { ...exchange, outcome: retry ? 'retry' : 'refused', error };
  }
  return results;
}

const NOTHING: z.output<typeof answer> = { rejected: [], unhandled: [] };

/** Null if the answer was not read whole or can't be understood. */
function contentOf(text: string | null, size: number): z.output<typeof answer> | null {
  if (text === null) return null;
  if (text === '') return NOTHING;
  let json: unknown;
  try {
    // Some servers begin everything they write with a byte order mark.
    json = JSON.parse(text.replace(/^\uFEFF/, ''));
  } catch {
    return null;
  }
  const isPlain = typeof json === 'object' && json !== null && !Array.isArray(json);
  if (!isPlain) return NOTHING;
  const read = answer.safeParse(json);
  return read.success && read.data.rejected.every(({ index }) => index < size) ? read.data : null;
}
