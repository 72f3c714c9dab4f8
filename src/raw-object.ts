/**
 * An object as its JSON text, exactly as JSON.stringify would write it: what only passes through is neither built nor written
 * anew.
 */
export class RawObject {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  /** For who writes it without knowing of it. */
  toJSON(): unknown {
    return this.parse();
  }

  parse(): Record<string, unknown> {
    return JSON.parse(this.text) as Record<string, unknown>;
  }
}

/** The object itself, where it was given as text. */
export function built<T>(value: T): T {
  return value instanceof RawObject ? (value.parse() as T) : value;
}
