/** True if the whole text matches a pattern in which `*` stands for any characters and `?` for one code point. */
export function matchesGlob(text: string, pattern: string): boolean {
  const [letters, signs] = [[...text], [...pattern]];
  let at = 0;
  let sign = 0;
  // The last star, and the letter at which what follows it was tried last.
  let star = -1;
  let tried = 0;
  while (at < letters.length) {
    if (signs[sign] === '*') {
      star = sign;
      tried = at;
      sign += 1;
    } else if (signs[sign] === '?' || (signs[sign] !== undefined && signs[sign] === letters[at])) {
      at += 1;
      sign += 1;
    } else if (star >= 0) {
      tried += 1;
      at = tried;
      sign = star + 1;
    } else {
      return false;
    }
  }
  return signs.slice(sign).every((left) => left === '*');
}
