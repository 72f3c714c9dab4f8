/** The prefix of the message ids of one version of a live audience; those of a run begin with its id. */
export const liveRun = (key: string, version: number): string => `live-${key}-${version.toString(36)}`;

/** JSON text of the traits object of a computed trait. */
export function traitsText(key: string, current: string | null): string | null {
  return current === null ? null : `{${JSON.stringify(key)}:${current}}`;
}
