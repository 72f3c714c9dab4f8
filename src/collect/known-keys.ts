/** A power of two. */
const PLACES = 256;
const MAX_LENGTH = 32;

const keys: (string | undefined)[] = new Array<undefined>(PLACES).fill(undefined);

/**
 * The string of a key that stands between two quotes: nearly always one that was there before. Making it anew, and having the
 * engine find the same one, costs more than all else that is done with a field.
 *
 * @throws SyntaxError when it is no JSON
 */
export function keyOf(bytes: Buffer, start: number, end: number): string {
  const length = end - start;
  const place = (length * 31 + (bytes[start] as number) * 7 + (bytes[end - 1] as number)) & (PLACES - 1);
  const known = keys[place];
  if (known !== undefined && isSame(known, bytes, start, length)) return known;
  const key = JSON.parse(bytes.toString('utf8', start - 1, end + 1)) as string;
  if (length <= MAX_LENGTH && isSame(key, bytes, start, length)) keys[place] = key;
  return key;
}

function isSame(key: string, bytes: Buffer, start: number, length: number): boolean {
  if (key.length !== length) return false;
  for (let index = 0; index < length; index += 1) if (key.charCodeAt(index) !== bytes[start + index]) return false;
  return true;
}
