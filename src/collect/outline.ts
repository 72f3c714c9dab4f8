/** How a value is had from its bytes. */
export const PARSED = 0;
export const TEXT = 1;
export const CANONICAL = 2;
export const DEEP = 3;

/** Numbers that stand for a field: start and end of its key, of its value, and how the value is had. */
export const FIELD = 5;
