/** How a value is had from its bytes. */
export const PARSED = 0;
export const TEXT = 1;
export const CANONICAL = 2;
export const DEEP = 3;
/** It must be JSON, and is no part of the object: a later field took its place. */
export const REPLACED = 4;

/** Numbers that stand for a field: start and end of its key, of its value, and how the value is had. */
export const FIELD = 5;
