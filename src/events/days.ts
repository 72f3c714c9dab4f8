/** The day of a time in UTC, YYYY-MM-DD. */
export const dayOf = (at: number) => new Date(at).toISOString().slice(0, 10);
