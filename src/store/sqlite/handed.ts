import { Places } from './packed-text.ts';

/** Deliveries that were claimed as they were accepted, as they cross between the threads. */
export interface PackedHanded {
  readonly destinations: readonly string[];
  /** Three for each: the place of its message, that of its destination, its id. */
  readonly numbers: Float64Array;
}

const NUMBERS = 3;

/** Gathers what the accepts of a transaction hand over. An id is known once the row is there. */
export class Handed {
  private readonly destinations = new Places<string>();
  private readonly numbers: number[] = [];

  get count(): number {
    return this.numbers.length / NUMBERS;
  }

  /** Returns its place. */
  add(message: number, destination: string): number {
    return this.numbers.push(message, this.destinations.of(destination), 0) / NUMBERS - 1;
  }

  identify(place: number, id: number): void {
    this.numbers[NUMBERS * place + 2] = id;
  }

  pack(from = 0, end = this.count): PackedHanded {
    const numbers = new Float64Array(this.numbers.slice(NUMBERS * from, NUMBERS * end));
    return { destinations: this.destinations.list, numbers };
  }
}

/** Part of it, from one place to another. */
export function partOf({ destinations, numbers }: PackedHanded, from: number, end: number): PackedHanded {
  return { destinations, numbers: numbers.subarray(NUMBERS * from, NUMBERS * end) };
}

/** What `claim` makes of each. */
export function eachHanded<T>(
  { destinations, numbers }: PackedHanded,
  claim: (message: number, destination: string, id: number) => T,
): T[] {
  const made: T[] = [];
  for (let at = 0; at < numbers.length; at += NUMBERS) {
    const [message, destination, id] = [numbers[at] as number, numbers[at + 1] as number, numbers[at + 2] as number];
    made.push(claim(message, destinations[destination] as string, id));
  }
  return made;
}
