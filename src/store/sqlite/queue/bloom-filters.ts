import type { SeenKey } from './seen-keys.ts';

/** Bits of a filter per id, and bits that an id sets. The rate of false positives is one in 175,000. */
const BITS_PER_ID = 32;
const PROBES = 8;
/** Filters in a group: the bits of a word. */
const GROUP_SIZE = 32;

export type Hashes = readonly [number, number];

/** Return the two numbers from which the probes are computed: the start of the key, which is a hash itself. */
export function hashesOf([first = 0, second = 0]: SeenKey): Hashes {
  return [first >>> 0, (second | 1) >>> 0];
}

interface FilterGroup {
  /** Ids of the filters, ascending. */
  readonly ids: number[];
  /** Bit n of word w is bit w of filter n. */
  readonly words: Uint32Array;
}

/**
 * Bloom filters of one size, 32 of them interleaved: one word answers for all of them. Looking up an id in thousands of
 * filters takes few reads of memory.
 */
export class BloomFilters {
  /** Bits of a filter; a power of two. */
  private readonly bits: number;
  private groups: FilterGroup[] = [];

  /** @param size - ids in each filter, a power of two; a few more raise the rate of false positives a little */
  constructor(size: number) {
    this.bits = size * BITS_PER_ID;
  }

  /** The highest id added; 0 if there is none. */
  get lastId(): number {
    return this.groups.at(-1)?.ids.at(-1) ?? 0;
  }

  /** Make a filter of these ids, in its stored form. */
  make(hashes: Iterable<Hashes>): Uint8Array {
    const filter = new Uint8Array(Math.ceil(this.bits / 8));
    for (const [h1, h2] of hashes) {
      for (let probe = 0; probe < PROBES; probe += 1) {
        const bit = this.bitOf(h1, h2, probe);
        filter[bit >>> 3] = (filter[bit >>> 3] as number) | (1 << (bit & 7));
      }
    }
    return filter;
  }

  /** Add a filter. Its id must be higher than those before. */
  add(id: number, filter: Uint8Array): void {
    let group = this.groups.at(-1);
    if (!group || group.ids.length === GROUP_SIZE) {
      group = { ids: [], words: new Uint32Array(this.bits) };
      this.groups.push(group);
    }
    const { ids, words } = group;
    const place = ids.length;
    // Without branches, which the CPU would mispredict for one bit in four.
    for (let bit = 0; bit < this.bits; bit += 1) {
      words[bit] = (words[bit] as number) | ((((filter[bit >>> 3] as number) >>> (bit & 7)) & 1) << place);
    }
    ids.push(id);
  }

  /** Return the ids of the filters that may hold a key with these hashes. */
  candidates([h1, h2]: Hashes): number[] {
    const found: number[] = [];
    for (const { ids, words } of this.groups) {
      let hits = -1;
      for (let probe = 0; probe < PROBES && hits !== 0; probe += 1) hits &= words[this.bitOf(h1, h2, probe)] as number;
      for (; hits !== 0; hits &= hits - 1) found.push(ids[31 - Math.clz32(hits & -hits)] as number);
    }
    return found;
  }

  /** Drop the groups that hold only lower ids. */
  removeBefore(id: number): void {
    this.groups = this.groups.filter(({ ids }) => (ids.at(-1) as number) >= id);
  }

  private bitOf(h1: number, h2: number, probe: number): number {
    return (h1 + probe * h2) & (this.bits - 1);
  }
}
