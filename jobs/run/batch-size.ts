/** The most characters of values or bodies held at once: tens of thousands of usual ones, or a few of the longest. */
const CHARACTERS = 16_000_000;

/** The end of a portion from `from`: at most `most` texts and no more characters than fit, but at least one text. */
export function endOfPortion(texts: readonly (string | null)[], from: number, most: number): number {
  const end = Math.min(texts.length, from + most);
  let characters = 0;
  for (let at = from; at < end; at += 1) {
    characters += texts[at]?.length ?? 0;
    if (characters > CHARACTERS) return Math.max(from + 1, at);
  }
  return end;
}

/** The number of texts that fit if they are as long as these, up to `most`. */
export function fitting(texts: readonly (string | null)[], most: number): number {
  const characters = texts.reduce((sum, text) => sum + (text?.length ?? 0), 0);
  return Math.max(1, Math.min(most, Math.floor((CHARACTERS * texts.length) / Math.max(1, characters))));
}
