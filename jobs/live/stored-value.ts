/** A stored value of an audience is `true`, or the columns of a member. */
export const hasColumns = (value: string): boolean => value.startsWith('{');

/** A stored value as the engine's port has it: JSON text of the traits object, or of an audience's columns. */
export function valueText(kind: 'audience' | 'trait', key: string, value: string | null): string | null {
  if (value === null) return null;
  if (kind === 'trait') return `{${JSON.stringify(key)}:${value}}`;
  return hasColumns(value) ? value : null;
}
