import type { Condition } from '../definition/conditions.ts';
import { sentenceOf, sentencesIn, valueSentence } from '../definition/sentence.ts';
import type { WrittenDefinition } from './config.ts';
import { value, when } from './definitions.ts';

/** The condition as it is written: variables are their names. Null for anything else, or if a variable is no text. */
function writtenCondition({ item }: WrittenDefinition): Condition | null {
  return when.safeParse(item['when']).data ?? null;
}

/** A short definition in words, without values of variables; null for any other. */
export function writtenSentence(written: WrittenDefinition): string | null {
  const condition = writtenCondition(written);
  if (condition !== null) return sentenceOf(condition);
  const computed = value.safeParse(written.item['value']).data;
  return computed ? valueSentence(computed) : null;
}

/** The sentence of each condition, by path. */
export function conditionSentences(written: WrittenDefinition | undefined): ReadonlyMap<string, string> {
  const condition = written ? writtenCondition(written) : null;
  return condition ? sentencesIn(condition) : new Map();
}
