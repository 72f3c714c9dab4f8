import { closestMatch } from 'leven';

/** Most names listed if none is close. */
const LISTED = 20;

/** Words of other products, by which ours are sought. */
const SYNONYMS: ReadonlyMap<string, string> = new Map([['did', 'performed']]);

/** `. Did you mean …?`, or a list of the known names if none is close or the given value is no text. */
export function suggestion(given: unknown, known: readonly string[]): string {
  const match = typeof given === 'string' ? closest(given, known) : undefined;
  if (match !== undefined) return `. Did you mean ${match}?`;
  if (known.length === 0) return '';
  return `. There is: ${known.slice(0, LISTED).join(', ')}${known.length > LISTED ? ', …' : ''}`;
}

function closest(given: string, known: readonly string[]): string | undefined {
  const synonym = SYNONYMS.get(given);
  if (synonym !== undefined && known.includes(synonym)) return synonym;
  return closestMatch(given, known, { maxDistance: Math.max(2, Math.floor(given.length / 3)) });
}

/** A sentence that says which names don't exist, and which one was probably meant. */
export function nothingNamed(what: string, given: readonly string[], known: readonly string[]): string {
  const sentence = `There is no ${what} ${given.join(', ')}${suggestion(given[0] ?? '', known)}`;
  return sentence.endsWith('?') ? sentence : `${sentence}.`;
}
