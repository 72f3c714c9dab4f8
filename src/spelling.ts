import { closestMatch } from 'leven';

/** Names listed where none is close. */
const LISTED = 20;

/** `. Did you mean …?`, or which ones there are; nothing is close to what is no text. */
export function suggestion(given: unknown, known: readonly string[]): string {
  const text = typeof given === 'string' ? given : '';
  const match = closestMatch(text, known, { maxDistance: Math.max(2, Math.floor(text.length / 3)) });
  if (match !== undefined) return `. Did you mean ${match}?`;
  if (known.length === 0) return '';
  return `. There is: ${known.slice(0, LISTED).join(', ')}${known.length > LISTED ? ', …' : ''}`;
}

/** A sentence that says what there is not, and what was probably meant. */
export function nothingNamed(what: string, given: readonly string[], known: readonly string[]): string {
  const sentence = `There is no ${what} ${given.join(', ')}${suggestion(given[0] ?? '', known)}`;
  return sentence.endsWith('?') ? sentence : `${sentence}.`;
}
