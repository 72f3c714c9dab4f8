/** The prefix of message ids for one version of a live audience. Those of a run begin with the run's id. */
export const liveRun = (key: string, version: number): string => `live-${key}-${version.toString(36)}`;

/** The traits object of a computed trait, as JSON text. */
export function traitsText(key: string, current: string | null): string | null {
  return current === null ? null : `{${JSON.stringify(key)}:${current}}`;
}
