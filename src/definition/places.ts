/** The keys of nested objects, from the outside in. */
export type KeyPath = readonly string[];

/** The parts of a message that a filter can read. */
export const MESSAGE_PARTS = ['properties', 'context', 'traits'] as const;

/** A place in a message. */
export interface FieldPlace {
  readonly part: (typeof MESSAGE_PARTS)[number];
  readonly path: KeyPath;
}
