/** The properties of a page that are texts. */
export const pageKeys = ['path', 'referrer', 'title', 'url'] as const;

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
