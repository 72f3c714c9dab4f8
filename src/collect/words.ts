/** Finds out which of some words stands in bytes, without making a string of them. */
export class Words {
  /** By length. */
  private readonly groups: (readonly Word[])[] = [];

  constructor(words: readonly string[]) {
    for (const [place, word] of words.entries()) {
      this.groups[word.length] = [...(this.groups[word.length] ?? []), { place, bytes: Buffer.from(word) }];
    }
    for (let length = 0; length < this.groups.length; length += 1) this.groups[length] ??= [];
  }

  /** Its place in the list; -1 when it is none of them. */
  find(bytes: Buffer, start: number, end: number): number {
    const group = this.groups[end - start];
    if (group === undefined) return -1;
    for (const word of group) if (isAt(word.bytes, bytes, start)) return word.place;
    return -1;
  }
}

interface Word {
  readonly place: number;
  readonly bytes: Uint8Array;
}

function isAt(word: Uint8Array, bytes: Buffer, start: number): boolean {
  for (let index = 0; index < word.length; index += 1) if (bytes[start + index] !== word[index]) return false;
  return true;
}
