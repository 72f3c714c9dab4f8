import fc from 'fast-check';

/** Halves of characters, which are none by themselves. */
const HALVES = { first: 0xd800, count: 0x800 } as const;
const CHARACTERS = 0x110000 - HALVES.count;

/** A unit of `fc.string`: its own `binary` is the same, but first makes a list of all characters, which takes a second of CPU. */
export const anyCharacter = fc.nat(CHARACTERS - 1).map(
  (place) => String.fromCodePoint(place < HALVES.first ? place : place + HALVES.count),
  (text) => {
    const point = typeof text === 'string' ? text.codePointAt(0) : undefined;
    if (point === undefined || text !== String.fromCodePoint(point)) throw new Error('That is not one character.');
    return point < HALVES.first ? point : point - HALVES.count;
  },
);
